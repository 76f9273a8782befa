import { z } from "@hono/zod-openapi";
import { noSecret } from "../api/route-parts/schemas.ts";
import { KeyData } from "./key-data.ts";

export const Key = z
  .strictObject(KeyData.shape)
  .openapi("Key", { description: "An API key. Its secret is in no answer but that to its making and rotation." });

const KeyWithSecret = z
  .strictObject({
    ...KeyData.shape,
    secret_key: z.string().openapi({
      description: "The key to send as `Authorization: Bearer`. Shown this once.",
      example: "dvo_4fPq2rT8vX0zB6dH_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7x7Qa",
    }),
  })
  .openapi("KeyWithSecret", { description: "A key with its secret, which is shown this once." });

const ReplayedKey = z.strictObject({ ...KeyData.shape, secret_key: noSecret }).openapi("ReplayedKey", {
  description:
    "The response to a repeated request with the same Idempotency-Key, which has the header `Idempotent-Replayed`. It cannot show the secret again. If you did not get the first response, rotate the key.",
});

/** The response to a POST that makes a secret. Two shapes: the secret is not nullable where it is shown. */
export const KeyOnce = z.union([KeyWithSecret, ReplayedKey]);
