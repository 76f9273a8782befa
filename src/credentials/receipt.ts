import { macWith } from "../crypto/hash.ts";
import type { SigningSecret } from "./signed-secret.ts";

// A receipt names the log entry of an admitted request. The team's API sends it back when it reports the response. A receipt is signed, so nobody can
// complete an entry that this service did not open.

/** What a receipt says. `entryId` contains the time of the request. */
export interface Receipt {
  accountId: string;
  /** The name of the account's log writer. */
  logWriter: string;
  entryId: string;
}

const tagLength = 22;

/** The prefix keeps a receipt from having the tag of a key or a token, which the same secrets sign. */
const tagOf = (payload: string, { secret }: SigningSecret): string =>
  Buffer.from(macWith(secret)(`receipt\n${payload}`))
    .toString("base64url")
    .slice(0, tagLength);

export function newReceipt({ accountId, logWriter, entryId }: Receipt, signing: SigningSecret): string {
  const payload = signing.name + Buffer.from(`${accountId} ${logWriter} ${entryId}`).toString("base64url");
  return `${payload}.${tagOf(payload, signing)}`;
}

/** Returns what a receipt says, or null if this service did not sign it. */
export function receiptOf(text: string, signing: readonly SigningSecret[]): Receipt | null {
  const [payload = "", tag = "", more] = text.split(".");
  const signer = signing.find(({ name }) => name === payload[0]);
  if (!signer || more !== undefined || !isSame(tagOf(payload, signer), tag)) return null;
  const [accountId, logWriter, entryId] = Buffer.from(payload.slice(1), "base64url").toString().split(" ");
  return accountId && logWriter && entryId ? { accountId, logWriter, entryId } : null;
}

/** Compares two tags in constant time. */
function isSame(one: string, other: string): boolean {
  if (one.length !== other.length) return false;
  let difference = 0;
  for (let at = 0; at < one.length; at++) difference |= one.charCodeAt(at) ^ other.charCodeAt(at);
  return difference === 0;
}
