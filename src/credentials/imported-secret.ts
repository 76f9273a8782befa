import { hmac } from "@noble/hashes/hmac.js";
import { sha256, sha512 } from "@noble/hashes/sha2.js";
import { bytesToHex, hexToBytes, utf8ToBytes } from "@noble/hashes/utils.js";

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

/**
 * How a secret is presented: what is hashed is its text, or the bytes that it writes in hex or base64url. django-rest-knox before version 5 hashes the bytes of
 * a hex text.
 */
export const presentations = ["text", "hex", "base64url"] as const;
export type Presentation = (typeof presentations)[number];
const hashedBytes: Record<Presentation, (text: string) => Uint8Array | null> = {
  text: utf8ToBytes,
  hex: (text) => (/^(?:[0-9a-f]{2})+$/i.test(text) ? hexToBytes(text) : null),
  base64url: (text) => (/^[\w-]+={0,2}$/.test(text) ? Buffer.from(text, "base64url") : null),
};

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
export const storedAlgorithm = (algorithm: Algorithm, secretName: string, presented: Presentation = "text"): string =>
  `${algorithm}${presented === "text" ? "" : `-of-${presented}`}${algorithm === "hmac-sha256" ? `:${secretName}` : ""}`;

/**
 * Returns whether a text was imported as `stored`. The part that was not hashed must be the same, too. The team may have stored it with or without the separator.
 * Laravel Sanctum also takes a token without its number.
 */
export const isStoredAs = ({ strip, prefix }: Candidate, stored: Pick<Candidate, "strip" | "prefix">): boolean =>
  strip === stored.strip
    ? stored.prefix === prefix || stored.prefix === prefix + separatorOf(strip)
    : strip === "none" && stored.strip === "pipe";

/** The hashes without a secret, by the names under which they are stored, for each way to present a secret. */
const plainHashes = (presented: Presentation): [string, (bytes: Uint8Array) => Uint8Array][] => [
  [storedAlgorithm("sha256", "", presented), sha256],
  [storedAlgorithm("sha512", "", presented), sha512],
];

/** The names under which hashes without a secret can be stored. */
export const plainAlgorithms: readonly string[] = presentations.flatMap((presented) => plainHashes(presented).map(([name]) => name));

/**
 * Returns all hashes under which a text may have been imported. `inUse`: those of `plainAlgorithms` under which anything is stored. Others are left out, because
 * hashing costs the most of a look-up.
 */
export function candidatesOf(text: string, secrets: ImportSecrets, inUse: ReadonlySet<string> = new Set(plainAlgorithms)): Candidate[] {
  return strips.flatMap((strip) => {
    const parts = split(text, strip);
    if (!parts || parts.hashed === "") return [];
    const hashes = presentations.flatMap((presented): [string, Uint8Array][] => {
      const plain = plainHashes(presented).filter(([name]) => inUse.has(name));
      const bytes = plain.length + secrets.length > 0 ? hashedBytes[presented](parts.hashed) : null;
      if (bytes === null) return [];
      return [
        ...plain.map(([name, hash]): [string, Uint8Array] => [name, hash(bytes)]),
        ...secrets.map(({ name, secret }): [string, Uint8Array] => [
          storedAlgorithm("hmac-sha256", name, presented),
          hmac(sha256, utf8ToBytes(secret), bytes),
        ]),
      ];
    });
    return hashes.map(([algorithm, digest]) => ({ algorithm, digest: bytesToHex(digest), strip, prefix: parts.prefix }));
  });
}

/** Returns the value that a guard compares for an imported secret. */
export const importedHashOf = ({ algorithm, digest }: Pick<Candidate, "algorithm" | "digest">): string => `${algorithm}:${digest}`;
