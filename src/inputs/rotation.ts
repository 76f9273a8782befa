import { z } from "zod";

/** Returns the schema for the rotation of a secret. `overlap` is the API description of the time during which the previous secret stays valid. */
export const rotation = (overlap: string) =>
  z.strictObject({
    overlap_seconds: z.int().min(0).max(604_800).default(0).meta({ description: overlap, example: 86_400 }),
  });
