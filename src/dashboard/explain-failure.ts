import { type Explanation, explanations } from "../lib/errors/explanations.ts";
import type { FailureCode } from "../lib/errors/failure.ts";
import { timeOfId } from "../lib/ids.ts";
import { hourMs, hourStart } from "../lib/time/clock.ts";
import { timeOfDay } from "../lib/time/moments.ts";
import type { ReadEntry } from "../log/read/read-activity.ts";
import { integer } from "./format.ts";

/** Explains a request that was denied or failed. Returns null for a status below 400. */
export function explain({
  id,
  status,
  errorCode,
  cost,
  violated,
  limits,
}: Pick<ReadEntry, "id" | "status" | "errorCode" | "cost" | "violated" | "limits">): Pick<Explanation, "why" | "what" | "header"> | null {
  if (status === null || status < 400) return null;
  if (errorCode === "rate_limit_exceeded" && violated && limits) {
    const hour = limits.find(({ name }) => name === "hour");
    if (hour && cost === null && violated.every((name) => name === "hour")) {
      const start = hourStart(timeOfId(id));
      return {
        ...explanations.rate_limit_exceeded,
        why: `The key had used all its requests of the hour from ${timeOfDay(start)} to ${timeOfDay(start + hourMs)}. Its limit is ${integer(hour.limit)} an hour.`,
      };
    }
    const full = limits
      .filter(({ name }) => violated.includes(name))
      .map(({ name, limit, used }) => `${integer(used)} of ${integer(limit)} ${periodOf(name)} were used`);
    const needed = cost === null ? "" : ` The request costs ${cost} units.`;
    const whose = violated.every(isOfAccount) ? "The account" : "The key";
    return { ...explanations.rate_limit_exceeded, why: `${whose} had no room for the request: ${full.join(", ")}.${needed}` };
  }
  return (
    explanations[errorCode as FailureCode] ?? {
      why: `The status of the response was ${status}.`,
      what: "The body of the response contains the details.",
    }
  );
}

const ofAccount = "account-";
const isOfAccount = (name: string) => name.startsWith(ofAccount);
/** Returns the words for the period of a limit, for example "per hour". */
const periodOf = (name: string) => (isOfAccount(name) ? `per ${name.slice(ofAccount.length)} for all keys of the account` : `per ${name}`);
