import { Failure } from "../errors.ts";
import { type ApiContext, callOf } from "./context.ts";
import type { Operation } from "./operation.ts";

export const longestBodyBytes = 64 * 1024;

const tooLarge = () => new Failure("body_too_large", "A body may have 64 KiB at most.");

/** Reads a body, and refuses what is too large, of another media type or not JSON, in this order. One that may be absent, and is, is an empty object. */
export async function readBody(c: ApiContext, { mediaTypes, needsBody }: Pick<Operation, "mediaTypes" | "needsBody">): Promise<void> {
  const sent = await readLimited(c);
  const isAbsent = sent.length === 0 && !needsBody;
  const bytes = isAbsent ? new TextEncoder().encode("{}") : sent;
  const sentAs = c.req.header("content-type")?.split(";")[0]?.trim().toLowerCase();
  const mediaType = isAbsent ? (sentAs ?? mediaTypes[0]) : sentAs;
  if (mediaType === undefined || !mediaTypes.includes(mediaType)) {
    throw new Failure("unsupported_media_type", `Send the body as ${mediaTypes.join(" or ")}.`, {
      headers: { [c.req.method === "PATCH" ? "Accept-Patch" : "Accept-Post"]: mediaTypes.join(", ") },
    });
  }
  const text = asJsonText(bytes);
  callOf(c).bodyText = text;
  // The stream is used up; the validators read this one, and know the media type without its parameters.
  c.req.raw = new Request(c.req.raw, { body: text });
  c.req.raw.headers.set("Content-Type", mediaType);
}

/** The bytes of the body. Throws `body_too_large`, and `malformed_json` where the client breaks off. */
export async function readLimited(c: ApiContext): Promise<Uint8Array> {
  if (Number(c.req.header("content-length") ?? 0) > longestBodyBytes) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of c.req.raw.body ?? []) {
      length += chunk.byteLength;
      if (length > longestBodyBytes) throw tooLarge();
      chunks.push(chunk);
    }
  } catch (cause) {
    if (cause instanceof Failure) throw cause;
    throw new Failure("malformed_json", "The body ended before all of it was there.", { cause });
  }
  return Buffer.concat(chunks);
}

function asJsonText(bytes: Uint8Array): string {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
    JSON.parse(text);
    return text;
  } catch (cause) {
    throw new Failure("malformed_json", "The body is not valid JSON in UTF-8.", { cause });
  }
}
