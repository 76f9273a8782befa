import { readAccount } from "../accounts/account.ts";
import { activityDatabase } from "../activity/databases.ts";
import type { Db } from "../db/client.ts";
import { Failure } from "../errors/failure.ts";
import { iso } from "../time/clock.ts";

// All that there is of an account, as one JSON object a line: what a team takes along when it leaves, and what an account may ask for.

/** Rows of one table, in the order of `order`, the columns of its primary key. `of`: the condition that a row is the account's (?1). */
interface Section {
  type: string;
  table: string;
  order: readonly [string, ...string[]];
  of?: string;
  /** Columns that hold JSON. */
  json?: readonly string[];
  /** Columns that are left out: hashes and sealed secrets, of use to nobody but this service, and what only finds rows. */
  hidden?: readonly string[];
  isLog?: true;
}

const ofMembers = "member_id IN (SELECT id FROM members WHERE account_id = ?1)";

const sections: readonly Section[] = [
  { type: "account", table: "accounts", order: ["id"], of: "id = ?1" },
  { type: "member", table: "members", order: ["id"], hidden: ["email_key"] },
  { type: "passkey", table: "passkeys", order: ["id"], of: ofMembers, json: ["transports"], hidden: ["public_key"] },
  { type: "session", table: "sessions", order: ["id"], of: ofMembers, hidden: ["token_hash"] },
  { type: "invitation", table: "invitations", order: ["id"], hidden: ["token_hash"] },
  {
    type: "key",
    table: "api_keys",
    order: ["created_at", "id"],
    json: ["scopes", "allowed_ips"],
    hidden: ["secret_hash", "previous_secret_hash", "signed_by", "previous_signed_by"],
  },
  { type: "user", table: "users", order: ["id"], hidden: ["email_key", "search_text"] },
  { type: "task", table: "tasks", order: ["id"], json: ["labels"], hidden: ["search_text"] },
  { type: "webhook", table: "webhooks", order: ["id"], json: ["event_types"], hidden: ["sealed_secret", "previous_sealed_secret"] },
  { type: "event", table: "events", order: ["id"], json: ["data", "previous"] },
  { type: "redelivery", table: "redeliveries", order: ["id"], json: ["filter", "event_types"], hidden: ["cursor", "next_at"] },
  { type: "delivery", table: "deliveries", order: ["webhook_id", "id"], hidden: ["claim", "claimed_until", "reserved_until"] },
  { type: "audit", table: "audit", order: ["id"], json: ["changes"] },
  { type: "request", table: "activity", order: ["id"], isLog: true },
  {
    type: "usage_day",
    table: "usage_days",
    order: ["start", "key_id", "route", "status"],
    isLog: true,
  },
];

export const exportedTables: ReadonlySet<string> = new Set(sections.map(({ table }) => table));

const rowsAtOnce = 200;
/** Each has ten attempts at most, one of them with 16 KiB of a response. */
const deliveriesAtOnce = 20;
/** Of one answer: the next one goes on where it ends. */
const mostCharacters = 2_000_000;
const mostPieces = 50;

/** A piece of an export: lines, and where the next piece goes on; null where this was the last. */
export interface ExportPiece {
  lines: object[];
  next: string | null;
}

/** Some rows of all that there is of an account, from after `cursor` (empty: from the beginning). Throws `not_found` and `invalid_cursor`. */
export async function exportAccount({ db, env }: { db: Db; env: object }, accountId: string, cursor: string): Promise<ExportPiece> {
  const account = await readAccount(db, accountId);
  let [at, after] = positionOf(cursor);
  const lines: object[] = [];
  for (let [piece, characters] = [0, 0]; piece < mostPieces && characters < mostCharacters; piece++) {
    const section = sections[at];
    if (!section) return { lines, next: null };
    const d1 = section.isLog ? activityDatabase(env, account.activityStore) : db.$client;
    const rows = await readRows(d1, section, accountId, after);
    const made = [...rows.map((row) => lineOf(section, row)), ...(section.type === "delivery" ? await attemptsOf(d1, rows) : [])];
    lines.push(...made);
    characters += JSON.stringify(made).length;
    const last = rows.at(-1);
    if (rows.length === atOnce(section) && last) after = section.order.map((column) => last[column] as string | number);
    else [at, after] = [at + 1, []];
  }
  return { lines, next: JSON.stringify([sections[at]?.type ?? "", after]) };
}

function positionOf(cursor: string): [section: number, after: (string | number)[]] {
  if (cursor === "") return [0, []];
  try {
    const [type, after] = JSON.parse(cursor) as [string, (string | number)[]];
    const at = type === "" ? sections.length : sections.findIndex((section) => section.type === type);
    const isPosition = Array.isArray(after) && (after.length === 0 || after.length === sections[at]?.order.length);
    if (at >= 0 && isPosition && after.every((part) => typeof part === "string" || typeof part === "number")) return [at, after];
  } catch {
    // Told below.
  }
  throw new Failure("invalid_cursor", "This is not where an export goes on.");
}

const atOnce = ({ type }: Pick<Section, "type">): number => (type === "delivery" ? deliveriesAtOnce : rowsAtOnce);

type Row = Record<string, unknown>;

async function readRows(
  d1: D1Database,
  { type, table, order, of = "account_id = ?1" }: Section,
  accountId: string,
  after: readonly unknown[],
): Promise<Row[]> {
  const columns = order.join(", ");
  const beyond = after.length > 0 ? `AND (${columns}) > (${after.map((_, index) => `?${index + 2}`).join(", ")})` : "";
  const query = `SELECT * FROM ${table} WHERE ${of} ${beyond} ORDER BY ${columns} LIMIT ${atOnce({ type })}`;
  const { results } = await d1
    .prepare(query)
    .bind(accountId, ...after)
    .all<Row>();
  return results;
}

/** The attempts of some deliveries. */
async function attemptsOf(d1: D1Database, deliveries: readonly Row[]): Promise<object[]> {
  const { results } = await d1
    .prepare("SELECT * FROM attempts WHERE delivery_id IN (SELECT value FROM json_each(?)) ORDER BY delivery_id, id")
    .bind(JSON.stringify(deliveries.map(({ id }) => id)))
    .all<Row>();
  return results.map((row) => lineOf({ type: "attempt", table: "attempts", order: ["id"], json: ["response_headers"] }, row));
}

function lineOf({ type, json = [], hidden = [] }: Section, row: Row): object {
  const shown = Object.entries(row)
    .filter(([name]) => name !== "account_id" && name !== "revision" && name !== "row_bytes" && !hidden.includes(name))
    .map(([name, value]) => [name, shownValue(name, value, json)]);
  return { type, data: Object.fromEntries(shown) };
}

/** Times as they are in the API, and JSON as what it says. */
function shownValue(name: string, value: unknown, json: readonly string[]): unknown {
  if (typeof value === "number" && (name === "at" || name.endsWith("_at") || name === "start" || name === "sample_until"))
    return iso(value);
  return json.includes(name) && typeof value === "string" ? JSON.parse(value) : value;
}
