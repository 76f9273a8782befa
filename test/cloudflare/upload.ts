import type { Metadata, Module } from "./account.ts";
import { ApiError } from "./endpoint.ts";

export interface Upload {
  metadata: Metadata;
  modules: Module[];
}

/** Reads the form with which wrangler uploads a version. */
export async function readUpload(form: FormData): Promise<Upload> {
  const modules: Module[] = [];
  let metadata: Metadata | undefined;
  for (const [name, value] of form) {
    if (name === "metadata") metadata = JSON.parse(typeof value === "string" ? value : await value.text());
    else if (typeof value !== "string" && value.type !== "application/source-map")
      modules.push({ name, type: value.type, content: new Uint8Array(await value.arrayBuffer()) });
  }
  if (!metadata) throw new ApiError(400, 10021, "The upload has no metadata.");
  return { metadata, modules };
}
