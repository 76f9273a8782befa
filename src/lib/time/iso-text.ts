import { z } from "zod";

/** The schema of a time in the format of the function `iso` (clock.ts). */
export const isoText = z.string().meta({ format: "date-time", examples: ["2026-01-31T09:30:00.000Z"] });

export const timeOf = (description: string) => isoText.meta({ description });
