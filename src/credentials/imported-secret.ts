import { hmac } from "@noble/hashes/hmac.js";
import { sha256, sha512 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

// The secrets that customers had before they came to this service. The team imports hashes, so this service never sees a secret until a client sends it.

export const strips = ["none", "underscore", "dot", "pipe"] as const;
export type Strip = (typeof strips)[number];
const separators: Record<Strip, string> = { none: "", underscore: "_", dot: ".", pipe: "|" };
/** Returns the character after which a text is hashed, or an empty string if the whole text is hashed. */
export const separatorOf = (strip: Strip): string => separators[strip];

/** The fast hashes that can be imported. Secrets with at least 128 random bits need no slow hash. */
export const algorithms = ["sha256", "sha512", "hmac-sha256"] as const;
export type Algorithm = (typeof algorithms)[number];
/** The length of each hash in bytes. */
export const digestBytes: Record<Algorithm, number> = { sha256: 32, sha512: 64, "hmac-sha256": 32 };

/** Secrets for `hmac-sha256`, by name. */
export type ImportSecrets = readonly { name: string; secret: string }[];

/** Parses `IMPORT_SECRETS`, comma-separated `name:secret` pairs. The text may be empty. */
export function importSecretsIn(env: object): ImportSecrets {
  const { IMPORT_SECRETS = "" } = env as { IMPORT_SECRETS?: string };
  if (IMPORT_SECRETS.trim() === "") return [];
  return IMPORT_SECRETS.split(",").map((pair) => {
    const [, name, secret] = /^\s*([\w-]{1,50}):(\S+)\s*$/.exec(pair) ?? [];
    if (!name || !secret) throw new Error("IMPORT_SECRETS must hold pairs of a name and a secret: name:<secret>");
    return { name, secret };
  });
}

/** Splits a text into the part that is not hashed, without the separator, and the part that is hashed. Returns null if the separator is missing. */
export function split(text: string, strip: Strip): { prefix: string; hashed: string } | null {
  if (strip === "none") return { prefix: "", hashed: text };
  const at = text.lastIndexOf(separatorOf(strip));
  return at < 0 ? null : { prefix: text.slice(0, at), hashed: text.slice(at + 1) };
}

/** A hash under which a text may have been imported. `algorithm`: the algorithm, and for `hmac-sha256` the name of its secret. */
export interface Candidate {
  algorithm: string;
  digest: string;
  strip: Strip;
  prefix: string;
}

/** Returns the name under which the hashes of an algorithm are stored. */
export const storedAlgorithm = (algorithm: Algorithm, secretName: string): string =>
  algorithm === "hmac-sha256" ? `hmac-sha256:${secretName}` : algorithm;

/** Returns all hashes under which a text may have been imported. */
export function candidatesOf(text: string, secrets: ImportSecrets): Candidate[] {
  return strips.flatMap((strip) => {
    const parts = split(text, strip);
    if (!parts || parts.hashed === "") return [];
    const bytes = utf8ToBytes(parts.hashed);
    const hashes: [string, Uint8Array][] = [
      ["sha256", sha256(bytes)],
      ["sha512", sha512(bytes)],
      ...secrets.map(({ name, secret }): [string, Uint8Array] => [
        storedAlgorithm("hmac-sha256", name),
        hmac(sha256, utf8ToBytes(secret), bytes),
      ]),
    ];
    return hashes.map(([algorithm, digest]) => ({ algorithm, digest: bytesToHex(digest), strip, prefix: parts.prefix }));
  });
}

/** Returns the value that a guard compares for an imported secret. */
export const importedHashOf = ({ algorithm, digest }: Pick<Candidate, "algorithm" | "digest">): string => `${algorithm}:${digest}`;
