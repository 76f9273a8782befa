import { z } from "@hono/zod-openapi";
import { KeyData } from "../../keys/key-data.ts";

export const Key = z
  .strictObject(KeyData.shape)
  .openapi("Key", { description: "An API key. Its secret is in no answer but that to its making and rotation." });

export const KeyWithSecret = z
  .strictObject({
    ...KeyData.shape,
    secret_key: z.string().nullable().openapi({
      description: "The key to send as `Authorization: Bearer`. Shown this once; null where the answer is a replay.",
      example: "dvo_4fPq2rT8vX0zB6dH_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7x7Qa",
    }),
  })
  .openapi("KeyWithSecret", { description: "A key with its secret, which is shown this once." });
