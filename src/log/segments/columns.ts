import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";
import * as decoding from "lib0/decoding";
import * as encoding from "lib0/encoding";
import { timeOfId } from "../../lib/ids.ts";
import type { Entry, LimitState } from "../entry.ts";

// The columns of encoded entries (codec.ts): one for each field. A column writes and reads the values of all entries.

type Encoder = encoding.Encoder;
export type Decoder = decoding.Decoder;

/** Writes and reads the values of one field of all entries. */
export interface Column<Value> {
  write: (encoder: Encoder, values: readonly (Value | null)[]) => void;
  read: (decoder: Decoder, count: number) => (Value | null)[];
}

const { writeVarUint, writeUint8, writeUint8Array, writeVarString } = encoding;
const { readVarUint, readUint8, readUint8Array, readVarString } = decoding;

/** Writes a whole number of either sign. Numbers close to 0 take one byte (zigzag encoding). */
const writeSigned = (encoder: Encoder, value: number) => writeVarUint(encoder, value < 0 ? -2 * value - 1 : 2 * value);

function readSigned(decoder: Decoder): number {
  const value = readVarUint(decoder);
  return value % 2 === 1 ? -(value + 1) / 2 : value / 2;
}

export function readAll<Value>(count: number, read: () => Value): Value[] {
  const values: Value[] = [];
  for (let at = 0; at < count; at++) values.push(read());
  return values;
}

/** The length of the part of an id that is not its time, in bytes. */
const randomBytes = 10;
export const idForm = /^req_[0-9a-f]{32}$/;

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
export const columns: { [Name in keyof Entry]-?: Column<NonNullable<Entry[Name]>> } = {
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
