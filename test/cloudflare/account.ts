import { randomUUID } from "node:crypto";

// The state of the emulated Cloudflare account. The API (api.ts) changes it, and the runtime (runtime.ts) serves what it says.

/** A permission that a token can have. The names are those of Cloudflare's page for tokens. */
export type Permission = "Workers Scripts" | "D1" | "Queues" | "Workers Routes" | "Account Settings" | "Memberships";

export interface Token {
  /** Whether the token belongs to a person. If not, the token belongs to the account, and cannot ask who the person is. */
  isOfUser: boolean;
  permissions: readonly Permission[];
}

export interface Database {
  uuid: string;
  name: string;
  /** The region, for example WEUR. */
  region: string;
  jurisdiction: string | null;
  /** The states of the database to which Time Travel can go back: an export at each bookmark. */
  bookmarks: { bookmark: string; at: number; statements: string[] }[];
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
  isPaused: boolean;
}

/** A binding as wrangler uploads it, for example `{ type: "d1", name: "DB", id: "..." }`. */
export type Binding = { type: string; name: string } & Record<string, unknown>;

export interface Module {
  name: string;
  /** The MIME type of the part that wrangler uploaded. */
  type: string;
  content: Uint8Array<ArrayBuffer>;
}

export interface Assets {
  /** The SHA-like hash of each file, by its path. */
  manifest: Record<string, { hash: string; size: number }>;
  config: Record<string, unknown>;
}

export interface Version {
  id: string;
  number: number;
  createdAt: string;
  mainModule: string;
  modules: Module[];
  bindings: Binding[];
  compatibilityDate: string;
  compatibilityFlags: string[];
  migrationTag: string | null;
  limits: Record<string, unknown>;
  placement: Record<string, unknown> | null;
  assets: Assets | null;
  annotations: Record<string, string>;
  /** What made the version: an upload, or a changed secret. */
  source: string;
}

export interface Share {
  version_id: string;
  percentage: number;
}

export interface Deployment {
  id: string;
  created_on: string;
  source: string;
  versions: Share[];
  annotations: Record<string, string>;
}

export interface Script {
  name: string;
  tag: string;
  tags: string[];
  /** The last migration of Durable Object classes that was applied. */
  migrationTag: string | null;
  /** Latest last. */
  versions: Version[];
  /** Latest first. */
  deployments: Deployment[];
  schedules: string[];
  isOnWorkersDev: boolean;
  settings: Record<string, unknown>;
}

export interface Account {
  id: string;
  tokens: Record<string, Token>;
  databases: Database[];
  queues: Queue[];
  scripts: Map<string, Script>;
  /** The Worker that serves each custom domain. */
  domains: Map<string, string>;
  /** The name of the account under workers.dev, or null if nobody has chosen one. */
  subdomain: string | null;
  /** The contents of uploaded assets, by hash. */
  assets: Map<string, Buffer>;
}

/** A new account with two tokens. */
export const newAccount = (): Account => ({
  id: randomUUID().replaceAll("-", ""),
  tokens: {
    // The permissions that docs/deploy.md lists.
    "least-privilege": { isOfUser: true, permissions: ["Workers Scripts", "D1", "Queues", "Workers Routes"] },
    "account-owned": { isOfUser: false, permissions: ["Workers Scripts", "D1", "Queues", "Workers Routes"] },
    "every-permission": {
      isOfUser: true,
      permissions: ["Workers Scripts", "D1", "Queues", "Workers Routes", "Account Settings", "Memberships"],
    },
  },
  databases: [],
  queues: [],
  scripts: new Map(),
  domains: new Map(),
  subdomain: "acme",
  assets: new Map(),
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
