import { makeSelectable } from "./select-span.ts";

// What a part of a page needs from the script, also a part that arrives after the page.

/** Writes each time that a selector finds. `textOf`: returns the text for a time in milliseconds since the epoch. */
export function writeTimes(root: ParentNode, selector: string, textOf: (timeMs: number) => string): void {
  for (const time of root.querySelectorAll<HTMLTimeElement>(selector)) {
    const text = textOf(Date.parse(time.dateTime));
    if (time.textContent?.trim() !== text) time.textContent = text;
  }
}

/** Shows times in the time zone of the browser if the reader chose local time. */
function writeLocalTimes(root: ParentNode): void {
  if (document.documentElement.dataset.zone !== "local") return;
  const inFull = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const ofDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
  const inLog = new Intl.DateTimeFormat(undefined, {
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
  writeTimes(root, "time.moment", (timeMs) => inFull.format(timeMs));
  writeTimes(root, "time.time-of-day", (timeMs) => ofDay.format(timeMs));
  writeTimes(root, "time.log-time", (timeMs) => inLog.format(timeMs));
}

/** Shows local times and the buttons that copy, and makes charts selectable. */
export function enhance(root: ParentNode): void {
  writeLocalTimes(root);
  for (const button of root.querySelectorAll<HTMLButtonElement>("button[data-copy]")) button.hidden = false;
  for (const chart of root.querySelectorAll<HTMLElement>("[data-select]")) makeSelectable(chart);
}
