import { eventCatalogue } from "../../src/events/catalogue.ts";
import { type CataloguedEvent, exampleBodyOf } from "../../src/events/event.ts";
import { type JsonObject, pascalCase, payloadName } from "../../src/openapi/document.ts";

// What webhooks are sent, as the `webhooks` of the document: a request for each type of event.

const header = (name: string, description: string, example: string): JsonObject => ({
  name,
  in: "header",
  required: true,
  description,
  schema: { type: "string" },
  example,
});

const headers = [
  header(
    "webhook-id",
    "The id of the event: the same on every attempt and redelivery. Use it to process each event once.",
    "evt_019a1b2c3d4e7f8091a2b3c4d5e6f708",
  ),
  header(
    "webhook-timestamp",
    "When this attempt was made, in seconds since the epoch. Reject requests older than five minutes.",
    "1769851800",
  ),
  header(
    "webhook-signature",
    "`v1,` and the base64 of the HMAC-SHA256 of `{webhook-id}.{webhook-timestamp}.{body}` under the secret; of each secret while two overlap, separated by a space.",
    "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
  ),
];

const responses: JsonObject = {
  "2XX": { description: "Taken. Answer within 15 seconds, before the work that follows." },
  "410": { description: "Gone for good: the webhook is disabled." },
  default: {
    description:
      "Any other response, including a redirect, is a failure. A delivery has ten attempts: the others follow after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h. Each delay varies by up to 20 %. `Retry-After` on 429 and 503 is honoured up to 24 h.",
  },
};

const requestOf = (kind: CataloguedEvent): JsonObject => ({
  post: {
    operationId: `on${pascalCase(kind.type)}`,
    summary: kind.type,
    description: `${kind.description} Reading it needs the scope \`${kind.scope}\`.`,
    tags: ["Webhooks"],
    security: [],
    parameters: headers,
    requestBody: {
      required: true,
      content: {
        "application/json": {
          schema: { $ref: `#/components/schemas/${payloadName(kind.type)}` },
          example: exampleBodyOf(kind) as JsonObject,
        },
      },
    },
    responses,
  },
});

/** Adds the requests that webhooks are sent. */
export function addEventRequests(document: JsonObject): void {
  document.webhooks = Object.fromEntries(eventCatalogue.kinds.map((kind) => [kind.type, requestOf(kind)]));
}
