import { z } from "@hono/zod-openapi";
import { keyStatuses } from "../../keys/key.ts";
import { KeyData } from "../../keys/key-data.ts";

export const Status = z.enum(keyStatuses);

export const Key = z.strictObject(KeyData.shape).openapi("Key");

export const KeyWithSecret = z
  .strictObject({
    ...KeyData.shape,
    secret_key: z.string().nullable().openapi({ description: "The key to send. Shown this once; null where the answer is a replay." }),
  })
  .openapi("KeyWithSecret");
