import type { IncomingMessage } from "node:http";
import type { Binding, Module } from "./account.ts";
import { ApiError } from "./endpoint.ts";

// Reads what wrangler uploads: the form of a version, and the tokens of assets.

export interface Upload {
  metadata: {
    main_module: string;
    bindings: Binding[];
    keep_bindings?: string[];
    compatibility_date: string;
    compatibility_flags?: string[];
    migrations?: { old_tag?: string; new_tag: string };
    limits?: Record<string, unknown>;
    placement?: Record<string, unknown>;
    assets?: { jwt: string; config: Record<string, unknown> };
    annotations?: Record<string, string>;
  };
  modules: Module[];
}

export const formOf = (body: Buffer, headers: IncomingMessage["headers"]) =>
  new Response(new Uint8Array(body), { headers: { "Content-Type": headers["content-type"] ?? "" } }).formData();

export async function readUpload(body: Buffer, headers: IncomingMessage["headers"]): Promise<Upload> {
  const modules: Module[] = [];
  let metadata: Upload["metadata"] | undefined;
  for (const [name, value] of await formOf(body, headers)) {
    if (name === "metadata") metadata = JSON.parse(typeof value === "string" ? value : await value.text());
    else if (typeof value !== "string" && value.type !== "application/source-map")
      modules.push({ name, type: value.type, content: new Uint8Array(await value.arrayBuffer()) });
  }
  if (!metadata) throw new ApiError(400, 10021, "The upload has no metadata.");
  return { metadata, modules };
}

/** The token of an asset upload contains the manifest, so that the API needs no session. */
export const assetsToken = (manifest: object) => `e30.${Buffer.from(JSON.stringify({ manifest })).toString("base64url")}.`;
export const manifestIn = (token: string) => JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()).manifest;
export const bearerOf = (headers: IncomingMessage["headers"]) => (headers.authorization ?? "").replace("Bearer ", "");
