import { randomUUID } from "node:crypto";

// The state of the emulated Cloudflare account. The API (api.ts) changes it, and the runtime (runtime.ts) serves what it says.

export interface Database {
  uuid: string;
  name: string;
  /** The region, for example WEUR. */
  region: string;
  jurisdiction: string | null;
}

export interface Consumer {
  consumer_id: string;
  script: string;
  dead_letter_queue?: string;
  settings: { batch_size?: number; max_retries?: number; max_wait_time_ms?: number; max_concurrency?: number };
}

export interface Queue {
  queue_id: string;
  queue_name: string;
  consumers: Consumer[];
}

/** A binding as wrangler uploads it, for example `{ type: "d1", name: "DB", id: "..." }`. */
export type Binding = { type: string; name: string } & Record<string, unknown>;

export interface Module {
  name: string;
  /** The MIME type of the part that wrangler uploaded. */
  type: string;
  content: Uint8Array<ArrayBuffer>;
}

/** What wrangler says about an upload. */
export interface Metadata {
  main_module: string;
  bindings: Binding[];
  keep_bindings?: string[];
  compatibility_date: string;
  compatibility_flags?: string[];
  migrations?: { old_tag?: string; new_tag: string };
  annotations?: Record<string, string>;
}

export interface Version {
  id: string;
  number: number;
  createdAt: string;
  metadata: Metadata;
  modules: Module[];
  /** The bindings with those that were inherited or kept. */
  bindings: Binding[];
  migrationTag: string | null;
}

export interface Share {
  version_id: string;
  percentage: number;
}

export interface Deployment {
  id: string;
  created_on: string;
  versions: Share[];
}

export interface Script {
  name: string;
  /** The last migration of Durable Object classes that was applied. */
  migrationTag: string | null;
  /** Latest last. */
  versions: Version[];
  /** Latest first. */
  deployments: Deployment[];
  schedules: string[];
}

export interface Account {
  id: string;
  databases: Database[];
  queues: Queue[];
  scripts: Map<string, Script>;
  /** The Worker that serves each custom domain. */
  domains: Map<string, string>;
}

export const newAccount = (): Account => ({
  id: randomUUID().replaceAll("-", ""),
  databases: [],
  queues: [],
  scripts: new Map(),
  domains: new Map(),
});

/** Returns the shares of the latest deployment. */
export const sharesOf = (script: Script): Share[] => script.deployments[0]?.versions ?? [];

/** Returns a deployed Worker. Throws if it is not deployed. */
export function scriptOf({ scripts }: Account, name = "developer-overview"): Script {
  const script = scripts.get(name);
  if (!script) throw new Error(`${name} is not deployed`);
  return script;
}

/** Returns the version that was uploaded last. New versions inherit the secrets of this version. */
export const latestOf = (script: Script): Version | undefined => script.versions.at(-1);
