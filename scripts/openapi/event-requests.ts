import { type JsonObject, pascalCase, payloadName } from "../../src/api/openapi/document.ts";
import { eventCatalogue } from "../../src/outbox/catalogue.ts";
import { type CataloguedEvent, exampleBodyOf } from "../../src/outbox/event.ts";

// Builds the `webhooks` member of the OpenAPI document. This member describes one request for each event type.

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
    "The id of the event, which is the same for every attempt and redelivery. Use the id to process each event only once.",
    "evt_019a1b2c3d4e7f8091a2b3c4d5e6f708",
  ),
  header(
    "webhook-timestamp",
    "The time of this attempt, in seconds since the Unix epoch. Reject requests that are older than five minutes.",
    "1769851800",
  ),
  header(
    "webhook-signature",
    "`v1,` followed by the signature in base64. The signature is the HMAC-SHA256 of `{webhook-id}.{webhook-timestamp}.{body}`, keyed with the signing secret. While two secrets overlap, the header has one signature for each secret, separated by a space.",
    "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
  ),
];

const responses: JsonObject = {
  "2XX": { description: "The receiver accepted the event. Respond within 15 seconds, before you process the event." },
  "410": { description: "The receiver is permanently gone, so the webhook is disabled." },
  default: {
    description:
      "Any other response, including a redirect, is a failure. A delivery has up to ten attempts. The delays between attempts are 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h. Each delay varies randomly by up to 20 %. The service respects the `Retry-After` header of 429 and 503 responses, up to 24 h.",
  },
};

const requestOf = (kind: CataloguedEvent): JsonObject => ({
  post: {
    operationId: `on${pascalCase(kind.type)}`,
    summary: kind.type,
    description: `${kind.description} To read the event, a key needs the scope \`${kind.scope}\`.`,
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

/** Adds the member `webhooks` to the OpenAPI document. */
export function addEventRequests(document: JsonObject): void {
  document.webhooks = Object.fromEntries(eventCatalogue.kinds.map((kind) => [kind.type, requestOf(kind)]));
}
