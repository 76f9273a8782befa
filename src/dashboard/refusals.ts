import type { ReadEntry } from "../activity/read-activity.ts";
import { explanations } from "../errors/explanations.ts";
import type { FailureCode } from "../errors/failure.ts";
import { timeOfId } from "../ids/ids.ts";
import { hourMs, hourStart } from "../time/clock.ts";
import { integer, timeOfDay } from "./format.ts";

/** Why a request was not served, what its client can do, and the header that told it. */
export interface Refusal {
  why: string;
  what: string;
  header?: string | undefined;
}

/** Of a request that was refused or failed; null for one that was served. `hourlyLimit`: that of its key, where it is known. */
export function explain({ id, status, errorCode }: Pick<ReadEntry, "id" | "status" | "errorCode">, hourlyLimit?: number): Refusal | null {
  if (status < 400) return null;
  if (errorCode === "rate_limit_exceeded" && hourlyLimit !== undefined) {
    const hour = hourStart(timeOfId(id));
    return {
      ...explanations.rate_limit_exceeded,
      why: `The key had used all its requests of the hour from ${timeOfDay(hour)} to ${timeOfDay(hour + hourMs)}; its limit is ${integer(hourlyLimit)} an hour.`,
    };
  }
  return explanations[errorCode as FailureCode] ?? { why: `It was answered with ${status}.`, what: "The body of the answer says more." };
}
