import { z } from "zod";

/** The schema of the one form in which the service writes times (`iso` in clock.ts). */
export const isoText = z.string().meta({ format: "date-time", examples: ["2026-01-31T09:30:00.000Z"] });

/** The same, with what it is the time of. */
export const timeOf = (description: string) => isoText.meta({ description });
