import { Buffer } from "node:buffer";
import { crc32, deflateRawSync, inflateRawSync } from "node:zlib";
import { bytesToHex } from "@noble/hashes/utils.js";
import * as fc from "fast-check";
import * as encoding from "lib0/encoding";
import { describe, expect, it } from "vitest";
import type { Entry } from "../../../src/log/entry.ts";
import { decodeEntries, encodeEntries, UnreadableEntries } from "../../../src/log/segments/codec.ts";
import { entryOf } from "../support/entries.ts";
import versionOne from "./golden/version-1.json";

/** Texts that are hard to store: empty, long, and with any characters except unpaired surrogates, which the log replaces before. */
const text = fc.oneof(
  fc.string({ unit: "binary" }).map((value) => value.toWellFormed()),
  fc.constantFrom("", "\0", "\u{feff}BOM", "é", "😀", "x".repeat(1024), "'; DROP TABLE", "__proto__", "req_"),
);
const nullable = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: null });
const whole = fc.oneof(fc.nat(), fc.constantFrom(0, 1, 127, 128, 2 ** 32, Number.MAX_SAFE_INTEGER - 1));
const id = fc.uint8Array({ minLength: 16, maxLength: 16 }).map((bytes) => `req_${bytesToHex(bytes)}`);
const limit = fc.record({ name: text, limit: whole, used: fc.nat() }, { noNullPrototype: true });
const fieldError = fc.record({ pointer: text, detail: text, code: fc.constantFrom("required", "too_long") }, { noNullPrototype: true });

const entry = fc.record<Entry>(
  {
    accountId: text,
    id,
    keyId: text,
    method: fc.oneof(fc.constantFrom("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"), text),
    path: text,
    route: text,
    status: nullable(fc.integer({ min: 100, max: 599 })),
    durationMs: nullable(whole),
    ip: nullable(text),
    country: nullable(text),
    userAgent: nullable(text),
    errorCode: nullable(text),
    admitted: fc.boolean(),
    counted: fc.boolean(),
    count: whole,
    secret: fc.constantFrom("current", "previous", null),
    cost: nullable(whole),
    violated: nullable(fc.array(text, { maxLength: 3 })),
    limits: nullable(fc.array(limit, { maxLength: 3 })),
    problem: nullable(fc.record({ detail: text, errors: fc.array(fieldError, { maxLength: 2 }) }, { noNullPrototype: true })),
  } as Parameters<typeof fc.record<Entry>>[0],
  { noNullPrototype: true },
);

/** Encodes content that `encodeEntries` would never write, with a correct checksum. */
function withChecksum(version: number, compressed: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(5 + compressed.length);
  bytes[0] = version;
  new DataView(bytes.buffer).setUint32(1, crc32(compressed));
  bytes.set(compressed, 5);
  return bytes;
}

const tenant = { accountId: "acc_1", keyId: "key_4fPq2rT8vX0zB6dH" };
const some = Array.from({ length: 1000 }, (_, at) =>
  entryOf(tenant, 1_800_000_000_000 + 11 * at, { path: `/api/v1/tasks/${at % 50}`, durationMs: (at * 7) % 40 }),
);

describe("encoded entries", () => {
  it("are decoded to the same entries in the same order", () => {
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 40 }), (entries) => {
        expect(decodeEntries(encodeEntries(entries))).toEqual(entries);
      }),
      { numRuns: 300 },
    );
  });

  it("take at most 16 bytes per entry if one account sends similar requests", () => {
    expect(encodeEntries(some).length / some.length).toBeLessThan(16);
  });

  it("of version 1 can be read", () => {
    expect(decodeEntries(Buffer.from(versionOne.bytes, "base64"))).toEqual(versionOne.entries);
  });

  it("are rejected with the number of their version if the version is unknown", () => {
    const bytes = encodeEntries(some);
    bytes[0] = 7;
    expect(() => decodeEntries(bytes)).toThrow("version 7 is unknown: this release reads version 1");
  });

  it("are rejected if a single bit is wrong", () => {
    const bytes = encodeEntries(some.slice(0, 20));
    fc.assert(
      fc.property(fc.nat({ max: 8 * bytes.length - 1 }), (bit) => {
        const damaged = bytes.slice();
        damaged[bit >> 3] = (damaged[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        expect(() => decodeEntries(damaged)).toThrow(UnreadableEntries);
      }),
    );
  });

  it("are rejected if they end early", () => {
    const bytes = encodeEntries(some.slice(0, 20));
    for (let length = 0; length < bytes.length; length++) expect(() => decodeEntries(bytes.subarray(0, length))).toThrow();
  });

  it("are rejected if the checksum is right but a column is unknown or too short", () => {
    const content = encoding.createEncoder();
    for (const number of [1, 1]) encoding.writeVarUint(content, number);
    encoding.writeVarString(content, "color");
    encoding.writeVarString(content, "red");
    const unknown = withChecksum(1, deflateRawSync(encoding.toUint8Array(content)));
    expect(() => decodeEntries(unknown)).toThrow("the column color is unknown");
    const whole = inflateRawSync(encodeEntries(some.slice(0, 3)).subarray(5));
    const short = withChecksum(1, deflateRawSync(whole.subarray(0, whole.length - 1)));
    expect(() => decodeEntries(short)).toThrow("the bytes do not contain entries");
  });

  it("cannot be made from an id that is not the id of a request, or from a number that is not whole", () => {
    const [first] = some as [Entry];
    for (const wrong of [{ id: "req_1" }, { id: `key_${"0".repeat(32)}` }, { count: -1 }, { durationMs: 0.5 }, { status: Number.NaN }])
      expect(() => encodeEntries([{ ...first, ...wrong }])).toThrow(TypeError);
  });
});
