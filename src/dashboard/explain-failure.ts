import type { ReadEntry } from "../activity/read-activity.ts";
import { explanations } from "../errors/explanations.ts";
import type { FailureCode } from "../errors/failure.ts";
import { timeOfId } from "../ids/ids.ts";
import { hourMs, hourStart } from "../time/clock.ts";
import { integer, timeOfDay } from "./format.ts";

/**
 * Explains a request that was denied or failed. `why`: the reason. `what`: what the client can do. `header`: the response header with more
 * information.
 */
export interface Explanation {
  why: string;
  what: string;
  header?: string | undefined;
}

/**
 * Explains a request that was denied or failed. Returns null for a status below 400. `hourlyLimit` is the limit of the request's key, if
 * known.
 */
export function explain(
  { id, status, errorCode }: Pick<ReadEntry, "id" | "status" | "errorCode">,
  hourlyLimit?: number,
): Explanation | null {
  if (status === null || status < 400) return null;
  if (errorCode === "rate_limit_exceeded" && hourlyLimit !== undefined) {
    const hour = hourStart(timeOfId(id));
    return {
      ...explanations.rate_limit_exceeded,
      why: `The key had used all its requests of the hour from ${timeOfDay(hour)} to ${timeOfDay(hour + hourMs)}. Its limit is ${integer(hourlyLimit)} an hour.`,
    };
  }
  return (
    explanations[errorCode as FailureCode] ?? {
      why: `The status of the response was ${status}.`,
      what: "The body of the response contains the details.",
    }
  );
}
