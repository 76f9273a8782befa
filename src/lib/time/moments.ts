// Writes times for readers. A script in the browser writes the same forms in the time zone of the reader.

const month = new Intl.DateTimeFormat("en-US", { month: "short", timeZone: "UTC" });
const seconds = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: "UTC" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

/** Formats a day (UTC), for example "22 Nov". */
export const day = (timeMs: number): string => `${new Date(timeMs).getUTCDate()} ${month.format(timeMs)}`;

/** Formats the hour of a time (UTC), for example "12:00". */
export const hourName = (timeMs: number): string => clock.format(timeMs);

/** Formats a full date and time, for example "22 Nov 2026, 12:04:31 UTC". */
export const moment = (timeMs: number): string => `${day(timeMs)} ${new Date(timeMs).getUTCFullYear()}, ${seconds.format(timeMs)} UTC`;

/** Formats a time of day, for example "12:04 UTC". */
export const timeOfDay = (timeMs: number): string => `${clock.format(timeMs)} UTC`;

/** Formats a date and time of a list without the zone (UTC), for example "22 Nov 12:04:31". */
export const logTime = (timeMs: number): string => `${day(timeMs)} ${seconds.format(timeMs)}`;
