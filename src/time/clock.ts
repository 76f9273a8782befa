export const secondMs = 1000;
export const minuteMs = 60 * secondMs;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

/** The unit in which the log is folded into roll-ups: twelve make an hour. */
export const sliceMs = 5 * minuteMs;

/** The start of the slice that holds `timeMs`. */
export const sliceStart = (timeMs: number): number => timeMs - (timeMs % sliceMs);

/** The start of the UTC hour that holds `timeMs`. */
export const hourStart = (timeMs: number): number => timeMs - (timeMs % hourMs);

/** The start of the UTC day that holds `timeMs`. */
export const dayStart = (timeMs: number): number => timeMs - (timeMs % dayMs);

/** RFC 3339, UTC, with `Z` and milliseconds: the one form in which the service writes times. */
export const iso = (timeMs: number): string => new Date(timeMs).toISOString();

export const isoOrNull = (timeMs: number | null): string | null => (timeMs === null ? null : iso(timeMs));
