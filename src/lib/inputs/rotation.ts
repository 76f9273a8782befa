import { z } from "zod";

/** The maximum time that the previous secret stays valid after a rotation: seven days, in seconds. */
export const maxOverlapSeconds = 604_800;

/** Returns the schema of a request to rotate a secret. `overlap` is the first part of the API description of `overlap_seconds`. */
export const rotation = (overlap: string) =>
  z.strictObject({
    overlap_seconds: z
      .int()
      .min(0)
      .max(maxOverlapSeconds)
      .default(0)
      .meta({ description: `${overlap}, from 0 to ${maxOverlapSeconds.toLocaleString("en")} (seven days).`, example: 86_400 }),
  });
