import { z } from "zod";

/** What is said of the rotation of a secret. `overlap`: describes for how long the secret before stays in use. */
export const rotation = (overlap: string) =>
  z.strictObject({
    overlap_seconds: z.int().min(0).max(604_800).default(0).meta({ description: overlap, example: 86_400 }),
  });
