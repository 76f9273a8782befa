import { crc32, deflateRawSync, inflateRawSync } from "node:zlib";
import * as decoding from "lib0/decoding";
import * as encoding from "lib0/encoding";
import type { Entry } from "../entry.ts";
import { type Column, columns, type Decoder, idForm, readAll } from "./columns.ts";

// Encodes entries of the request log as bytes. Segments in D1 and the write-ahead log of a log writer use this form.
//
// The bytes start with the version (1 byte) and the CRC-32 checksum of everything that follows (4 bytes, highest byte first). The rest is
// compressed with raw DEFLATE (RFC 1951). It contains the number of entries, the number of columns, and the columns. A column consists of its
// name, its length in bytes, and the values of all entries. A column without values is left out. Numbers are varints. `codec.test.ts`
// shows that the bytes of every released version can still be read. A new column therefore needs a new version.

const version = 1;
const headerBytes = 5;
/** The maximum size of decompressed bytes. The entries of a segment have at most a tenth of this size. */
const maxBytes = 64 * 1024 * 1024;

/** Thrown if bytes cannot be decoded: they are damaged, or a later release wrote them. */
export class UnreadableEntries extends Error {
  override name = "UnreadableEntries";
}

const { writeVarUint, writeVarString } = encoding;
const { readVarUint, readVarString } = decoding;

type AnyColumn = Column<unknown>;
const allColumns = Object.entries(columns) as [keyof Entry, AnyColumn][];

/**
 * Encodes entries as bytes. `decodeEntries` returns the same entries in the same order. Throws a `TypeError` if an id is not the id of a
 * request, or if a number is not a whole number from 0.
 */
export function encodeEntries(entries: readonly Entry[]): Uint8Array<ArrayBuffer> {
  const content = encoding.createEncoder();
  const present = allColumns.filter(([name]) => entries.some((entry) => entry[name] !== null));
  writeVarUint(content, entries.length);
  writeVarUint(content, present.length);
  for (const [name, column] of present) {
    const values = encoding.createEncoder();
    column.write(
      values,
      entries.map((entry) => entry[name]),
    );
    writeVarString(content, name);
    encoding.writeVarUint8Array(content, encoding.toUint8Array(values));
  }
  const compressed = deflateRawSync(encoding.toUint8Array(content));
  const bytes = new Uint8Array(headerBytes + compressed.length);
  bytes[0] = version;
  new DataView(bytes.buffer).setUint32(1, crc32(compressed));
  bytes.set(compressed, headerBytes);
  return bytes;
}

/** Returns whether `encodeEntries` accepts an entry. */
export function isEncodable(entry: Entry): boolean {
  const { id, status, durationMs, count, cost, limits } = entry;
  const numbers = [status ?? 0, durationMs ?? 0, count, cost ?? 0, ...(limits ?? []).flatMap(({ limit, used }) => [limit, used])];
  return idForm.test(id) && numbers.every((value) => Number.isSafeInteger(value) && value >= 0);
}

/** Chooses entries by their ids. Returns the positions of the chosen ids. */
export type Choose = (ids: readonly string[]) => readonly number[];

/**
 * Decodes the bytes of `encodeEntries`. Returns only the chosen entries, because most of the work is to build entries. Throws `UnreadableEntries` if
 * the version is unknown or the bytes are damaged.
 */
export function decodeEntries(bytes: Uint8Array, choose: Choose = (ids) => [...ids.keys()]): Entry[] {
  if (bytes.length < headerBytes) throw new UnreadableEntries("the bytes end before the checksum");
  if (bytes[0] !== version) throw new UnreadableEntries(`version ${bytes[0]} is unknown: this release reads version ${version}`);
  const compressed = bytes.subarray(headerBytes);
  if (new DataView(bytes.buffer, bytes.byteOffset).getUint32(1) !== crc32(compressed))
    throw new UnreadableEntries("the checksum does not match the bytes");
  try {
    return decodeContent(decoding.createDecoder(inflateRawSync(compressed, { maxOutputLength: maxBytes })), choose);
  } catch (error) {
    throw new UnreadableEntries(`the bytes do not contain entries: ${error}`, { cause: error });
  }
}

function decodeContent(content: Decoder, choose: Choose): Entry[] {
  const count = readVarUint(content);
  const values = new Map<string, unknown[]>();
  for (let left = readVarUint(content); left > 0; left--) {
    const name = readVarString(content);
    const column = Object.hasOwn(columns, name) ? (columns[name as keyof Entry] as AnyColumn) : null;
    if (column === null) throw new RangeError(`the column ${name} is unknown`);
    values.set(name, column.read(decoding.createDecoder(decoding.readVarUint8Array(content)), count));
  }
  const nulls = readAll(count, () => null);
  const of = <Name extends keyof Entry>(name: Name) => {
    const column = values.get(name) ?? nulls;
    return (at: number) => column[at] as Entry[Name];
  };
  const [id, accountId, keyId, method, path, route] = [of("id"), of("accountId"), of("keyId"), of("method"), of("path"), of("route")];
  const [status, durationMs, ip, country, userAgent] = [of("status"), of("durationMs"), of("ip"), of("country"), of("userAgent")];
  const [errorCode, admitted, counted, requests, secret] = [of("errorCode"), of("admitted"), of("counted"), of("count"), of("secret")];
  const [cost, violated, limits, problem] = [of("cost"), of("violated"), of("limits"), of("problem")];
  // Each field is written out, because a loop over the names of the fields takes three times as long.
  return choose((values.get("id") ?? []) as string[]).map(
    (at): Entry => ({
      id: id(at),
      accountId: accountId(at),
      keyId: keyId(at),
      method: method(at),
      path: path(at),
      route: route(at),
      status: status(at),
      durationMs: durationMs(at),
      ip: ip(at),
      country: country(at),
      userAgent: userAgent(at),
      errorCode: errorCode(at),
      admitted: admitted(at),
      counted: counted(at),
      count: requests(at),
      secret: secret(at),
      cost: cost(at),
      violated: violated(at),
      limits: limits(at),
      problem: problem(at),
    }),
  );
}
