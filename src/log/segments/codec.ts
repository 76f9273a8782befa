import { crc32, deflateRawSync, inflateRawSync } from "node:zlib";
import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";
import * as decoding from "lib0/decoding";
import * as encoding from "lib0/encoding";
import { timeOfId } from "../../lib/ids.ts";
import type { Entry, LimitState } from "../entry.ts";

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

type Encoder = encoding.Encoder;
type Decoder = decoding.Decoder;

/** Writes and reads the values of one field of all entries. */
interface Column<Value> {
  write: (encoder: Encoder, values: readonly (Value | null)[]) => void;
  read: (decoder: Decoder, count: number) => (Value | null)[];
}

/** Thrown if bytes cannot be decoded: they are damaged, or a later release wrote them. */
export class UnreadableEntries extends Error {
  override name = "UnreadableEntries";
}

const { writeVarUint, writeUint8, writeUint8Array, writeVarString } = encoding;
const { readVarUint, readUint8, readUint8Array, readVarString } = decoding;

/** Writes a whole number of either sign. Numbers close to 0 take one byte (zigzag encoding). */
const writeSigned = (encoder: Encoder, value: number) => writeVarUint(encoder, value < 0 ? -2 * value - 1 : 2 * value);

function readSigned(decoder: Decoder): number {
  const value = readVarUint(decoder);
  return value % 2 === 1 ? -(value + 1) / 2 : value / 2;
}

function readAll<Value>(count: number, read: () => Value): Value[] {
  const values: Value[] = [];
  for (let at = 0; at < count; at++) values.push(read());
  return values;
}

/** The length of the part of an id that is not its time, in bytes. */
const randomBytes = 10;
const idForm = /^req_[0-9a-f]{32}$/;

/** Ids: the difference between the times of an id and of the id before it, and then the random part. */
const ids: Column<string> = {
  write: (encoder, values) => {
    let before = 0;
    for (const id of values) {
      if (id === null || !idForm.test(id)) throw new TypeError(`${id} is not the id of a request`);
      const time = timeOfId(id);
      writeSigned(encoder, time - before);
      before = time;
    }
    for (const id of values) writeUint8Array(encoder, hexToBytes((id as string).slice(-2 * randomBytes)));
  },
  read: (decoder, count) => {
    let before = 0;
    const times = readAll(count, () => {
      before += readSigned(decoder);
      return before;
    });
    const random = bytesToHex(readUint8Array(decoder, randomBytes * count));
    const digits = 2 * randomBytes;
    return times.map((time, at) => `req_${time.toString(16).padStart(12, "0")}${random.slice(digits * at, digits * (at + 1))}`);
  },
};

/** Texts: each different text once, and then the number of its text for each entry. */
const texts: Column<string> = {
  write: (encoder, values) => {
    const numbers = new Map<string, number>();
    for (const value of values) if (value !== null && !numbers.has(value)) numbers.set(value, numbers.size + 1);
    writeVarUint(encoder, numbers.size);
    for (const value of numbers.keys()) writeVarString(encoder, value);
    for (const value of values) writeVarUint(encoder, value === null ? 0 : (numbers.get(value) as number));
  },
  read: (decoder, count) => {
    const known = readAll(readVarUint(decoder), () => readVarString(decoder));
    return readAll(count, () => {
      const number = readVarUint(decoder);
      if (number > known.length) throw new RangeError(`there is no text ${number}`);
      return known[number - 1] ?? null;
    });
  },
};

/** Whole numbers from 0. */
const numbers: Column<number> = {
  write: (encoder, values) => {
    for (const value of values) {
      if (value !== null && !(Number.isSafeInteger(value) && value >= 0)) throw new TypeError(`${value} is not a whole number from 0`);
      writeVarUint(encoder, value === null ? 0 : value + 1);
    }
  },
  read: (decoder, count) =>
    readAll(count, () => {
      const value = readVarUint(decoder);
      return value === 0 ? null : value - 1;
    }),
};

const flags: Column<boolean> = {
  write: (encoder, values) => {
    for (const value of values) writeUint8(encoder, value ? 1 : 0);
  },
  read: (decoder, count) => readAll(count, () => readUint8(decoder) === 1),
};

/** Objects, as the texts of their JSON. */
function json<Value>(): Column<Value> {
  return {
    write: (encoder, values) =>
      texts.write(
        encoder,
        values.map((value) => (value === null ? null : JSON.stringify(value))),
      ),
    read: (decoder, count) => texts.read(decoder, count).map((text) => (text === null ? null : (JSON.parse(text) as Value))),
  };
}

type LimitShape = readonly (readonly [name: string, limit: number])[];
const shapes = json<LimitShape>();

/**
 * The state of the limits. Names and limits rarely change, and `used` usually grows by one. `used` is therefore the difference to the entry
 * before it with the same names and limits.
 */
const limitStates: Column<readonly LimitState[]> = {
  write: (encoder, values) => {
    const shapeOf = values.map((limits) => limits && JSON.stringify(limits.map(({ name, limit }) => [name, limit])));
    texts.write(encoder, shapeOf);
    const before = new Map<string, number[]>();
    values.forEach((limits, at) => {
      const shape = shapeOf[at] ?? null;
      if (limits === null || shape === null) return;
      const used = limits.map((limit) => limit.used);
      used.forEach((value, index) => {
        writeSigned(encoder, value - (before.get(shape)?.[index] ?? 0));
      });
      before.set(shape, used);
    });
  },
  read: (decoder, count) => {
    const before = new Map<string, number[]>();
    return shapes.read(decoder, count).map((shape) => {
      if (shape === null) return null;
      const name = JSON.stringify(shape);
      const used = shape.map((_, index) => readSigned(decoder) + (before.get(name)?.[index] ?? 0));
      before.set(name, used);
      return shape.map(([window, limit], index) => ({ name: window, limit, used: used[index] ?? 0 }));
    });
  },
};

/** The columns, in the order in which they are written. */
const columns: { [Name in keyof Entry]-?: Column<NonNullable<Entry[Name]>> } = {
  id: ids,
  accountId: texts,
  keyId: texts,
  method: texts,
  path: texts,
  route: texts,
  status: numbers,
  durationMs: numbers,
  ip: texts,
  country: texts,
  userAgent: texts,
  errorCode: texts,
  admitted: flags,
  counted: flags,
  count: numbers,
  secret: texts as Column<"current" | "previous">,
  cost: numbers,
  violated: json(),
  limits: limitStates,
  problem: json(),
};

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
