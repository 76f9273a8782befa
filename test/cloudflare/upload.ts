import type { IncomingMessage } from "node:http";
import type { Metadata, Module } from "./account.ts";
import { ApiError } from "./endpoint.ts";

// Reads what wrangler uploads: the form of a version, and the tokens of assets.

export interface Upload {
  metadata: Metadata;
  modules: Module[];
}

export const formOf = (body: Buffer, headers: IncomingMessage["headers"]) =>
  new Response(new Uint8Array(body), { headers: { "Content-Type": headers["content-type"] ?? "" } }).formData();

export async function readUpload(body: Buffer, headers: IncomingMessage["headers"]): Promise<Upload> {
  const modules: Module[] = [];
  let metadata: Metadata | undefined;
  for (const [name, value] of await formOf(body, headers)) {
    if (name === "metadata") metadata = JSON.parse(typeof value === "string" ? value : await value.text());
    else if (typeof value !== "string" && value.type !== "application/source-map")
      modules.push({ name, type: value.type, content: new Uint8Array(await value.arrayBuffer()) });
  }
  if (!metadata) throw new ApiError(400, 10021, "The upload has no metadata.");
  return { metadata, modules };
}

/** The token of an asset upload contains the manifest, so that the API needs no session. */
export const assetsToken = (manifest: object) => `e30.${Buffer.from(JSON.stringify(manifest)).toString("base64url")}.`;
/** Returns the hash of each file, by its path. */
export function manifestIn(token: string): Record<string, string> {
  const manifest = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as Record<string, { hash: string }>;
  return Object.fromEntries(Object.entries(manifest).map(([path, { hash }]) => [path, hash]));
}
