import { logTime, moment, timeOfDay } from "../../lib/time/moments.ts";
import { makeSelectable } from "./select-span.ts";

// What a part of a page needs from the script, also a part that arrives after the page.

/** Writes each time that a selector finds. `textOf`: returns the text for a time in milliseconds since the epoch. */
export function writeTimes(root: ParentNode, selector: string, textOf: (timeMs: number) => string): void {
  for (const time of root.querySelectorAll<HTMLTimeElement>(selector)) {
    const text = textOf(Date.parse(time.dateTime));
    if (time.textContent?.trim() !== text) time.textContent = text;
  }
}

/** Writes a time in the time zone of the browser, in the form that `write` has for UTC. The zone is written as "UTC+9". */
const locally = (write: (timeMs: number) => string, timeMs: number): string =>
  write(timeMs + minutesAheadAt(timeMs) * 60_000).replace("UTC", zoneAt(timeMs));

const minutesAheadAt = (timeMs: number): number => -new Date(timeMs).getTimezoneOffset();

function zoneAt(timeMs: number): string {
  const minutes = minutesAheadAt(timeMs);
  const [hours, rest] = [Math.trunc(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return minutes === 0 ? "UTC" : `UTC${minutes < 0 ? "−" : "+"}${hours}${rest === 0 ? "" : `:${rest}`}`;
}

/** Shows times in the time zone of the browser if the reader chose local time. */
function writeLocalTimes(root: ParentNode): void {
  if (document.documentElement.dataset.zone !== "local") return;
  writeTimes(root, "time.moment", (timeMs) => locally(moment, timeMs));
  writeTimes(root, "time.time-of-day", (timeMs) => locally(timeOfDay, timeMs));
  writeTimes(root, "time.log-time", (timeMs) => locally(logTime, timeMs));
  // The times of these columns have no zone of their own. Charts, fields and filters stay in UTC, and say so.
  for (const time of root.querySelectorAll<HTMLTimeElement>("time.log-time")) time.dataset.zone = zoneAt(Date.parse(time.dateTime));
  for (const head of root.querySelectorAll("th[data-zoned]")) head.textContent = `When (${zoneAt(Date.now())})`;
}

/** Shows local times and the buttons that copy, and makes charts selectable. */
export function enhance(root: ParentNode): void {
  writeLocalTimes(root);
  for (const button of root.querySelectorAll<HTMLButtonElement>("button[data-copy]")) button.hidden = false;
  for (const chart of root.querySelectorAll<HTMLElement>("[data-select]")) makeSelectable(chart);
}
