import { crc32 } from "node:zlib";

// A Bloom filter tells which texts are certainly not in a set. It needs 10 bits per text, and 1 of 100 other texts looks as if it were in the
// set (Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970).

const bitsPerText = 10;
const hashes = 7;

/** Returns the positions of the bits of a text (Kirsch and Mitzenmacher, "Less hashing, same performance", 2006). */
function positionsOf(text: string, bits: number): number[] {
  const first = mixed(crc32(text));
  const step = mixed(first) | 1;
  return Array.from({ length: hashes }, (_, index) => ((first + index * step) >>> 0) % bits);
}

/** Mixes the bits of a 32-bit number (the finalizer of MurmurHash3). */
function mixed(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

export function bloomFilterOf(texts: ReadonlySet<string>): Uint8Array {
  const filter = new Uint8Array(Math.max(1, Math.ceil((texts.size * bitsPerText) / 8)));
  for (const text of texts)
    for (const position of positionsOf(text, 8 * filter.length))
      filter[position >> 3] = (filter[position >> 3] ?? 0) | (1 << (position & 7));
  return filter;
}

/** Returns false if the text is certainly not in the filter. */
export const mayContain = (filter: Uint8Array, text: string): boolean =>
  positionsOf(text, 8 * filter.length).every((position) => ((filter[position >> 3] ?? 0) & (1 << (position & 7))) !== 0);
