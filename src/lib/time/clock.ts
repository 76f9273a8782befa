export const secondMs = 1000;
export const minuteMs = 60 * secondMs;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

/** Returns the start of the UTC hour that contains `timeMs`. */
export const hourStart = (timeMs: number): number => timeMs - (timeMs % hourMs);

/** Returns the start of the UTC day that contains `timeMs`. */
export const dayStart = (timeMs: number): number => timeMs - (timeMs % dayMs);

/** Returns the start of the UTC month that contains `timeMs`. */
export function monthStart(timeMs: number): number {
  const time = new Date(timeMs);
  return Date.UTC(time.getUTCFullYear(), time.getUTCMonth());
}

/** Returns the end of the UTC month that contains `timeMs`, which is the start of the next month. */
export function monthEnd(timeMs: number): number {
  const time = new Date(timeMs);
  return Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1);
}

/** Formats a time as RFC 3339 in UTC, with milliseconds and `Z`. The service writes every time in this format. */
export const iso = (timeMs: number): string => new Date(timeMs).toISOString();

export const isoOrNull = (timeMs: number | null): string | null => (timeMs === null ? null : iso(timeMs));
