import { createHmac } from "node:crypto";
import type { SigningSecret } from "./signed-secret.ts";

// A receipt names the log entry of an admitted request. The team's API sends it back when it reports the response. A receipt is signed, so nobody can
// complete an entry that this service did not open.

/**
 * What a receipt says. `entryId` contains the time of the request. The other members describe the request: if its log entry was lost with the isolate that had
 * not sent it yet, the report makes the entry again.
 */
export interface Receipt {
  accountId: string;
  /** The name of the account's log writer. */
  logWriter: string;
  entryId: string;
  keyId: string;
  method: string;
  path: string;
  route: string;
  ip: string | null;
  cost: number | null;
  counted: boolean;
  secret: "current" | "previous";
}

const members = ["accountId", "logWriter", "entryId", "keyId", "method", "path", "route", "ip", "cost", "counted", "secret"] as const;

/**
 * What a lease says that a process of the team holds. `issuer`: the token that it was given to. The other members describe the key: an entry of a request that
 * the process decided names the lease, and so its key.
 */
export interface LeaseReceipt {
  id: string;
  units: number;
  issuer: string;
  keyId: string;
  secretHash: string;
  accountId: string;
  logWriter: string;
  secret: "current" | "previous";
  /** When the lease was given, and when it ends, in milliseconds since the epoch. */
  from: number;
  until: number;
}

const leaseMembers = ["id", "units", "issuer", "keyId", "secretHash", "accountId", "logWriter", "secret", "from", "until"] as const;

const tagLength = 22;

/**
 * The label keeps a text from having the tag of a key or a token, which the same secrets sign. A receipt is about eight times as long as a key, so native
 * code computes its tag in less than half of the time.
 */
const tagOf = (label: string, payload: string, { secret }: SigningSecret): string =>
  createHmac("sha256", secret).update(`${label}\n${payload}`).digest("base64url").slice(0, tagLength);

function signed(label: string, values: unknown[], signing: SigningSecret): string {
  const payload = signing.name + Buffer.from(JSON.stringify(values)).toString("base64url");
  return `${payload}.${tagOf(label, payload, signing)}`;
}

/** Returns the members of a signed text, or null if this service did not sign it. */
function readSigned<Content>(label: string, text: string, members: readonly string[], signing: readonly SigningSecret[]): Content | null {
  const [payload = "", tag = "", more] = text.split(".");
  const signer = signing.find(({ name }) => name === payload[0]);
  if (!signer || more !== undefined || !isSame(tagOf(label, payload, signer), tag)) return null;
  const values = JSON.parse(Buffer.from(payload.slice(1), "base64url").toString()) as unknown[];
  return Object.fromEntries(members.map((member, index) => [member, values[index]])) as Content;
}

export const newReceipt = (receipt: Receipt, signing: SigningSecret): string =>
  signed(
    "receipt",
    members.map((member) => receipt[member]),
    signing,
  );

/** Returns what a receipt says, or null if this service did not sign it. */
export const receiptOf = (text: string, signing: readonly SigningSecret[]): Receipt | null => readSigned("receipt", text, members, signing);

export const newLeaseReceipt = (lease: LeaseReceipt, signing: SigningSecret): string =>
  signed(
    "lease",
    leaseMembers.map((member) => lease[member]),
    signing,
  );

/** Returns what a lease says, or null if this service did not sign it. */
export const leaseReceiptOf = (text: string, signing: readonly SigningSecret[]): LeaseReceipt | null =>
  readSigned("lease", text, leaseMembers, signing);

/** Compares two tags in constant time. */
function isSame(one: string, other: string): boolean {
  if (one.length !== other.length) return false;
  let difference = 0;
  for (let at = 0; at < one.length; at++) difference |= one.charCodeAt(at) ^ other.charCodeAt(at);
  return difference === 0;
}
