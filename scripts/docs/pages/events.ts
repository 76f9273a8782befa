import { type JsonObject, payloadName } from "../../../src/api/openapi/document.ts";
import type { DocPage } from "../../../src/docs/page.ts";
import { eventCatalogue } from "../../../src/outbox/catalogue.ts";
import { exampleBodyOf } from "../../../src/outbox/event.ts";
import { eventPath, jsonFence, paragraphs, schemaPath } from "../markdown.ts";
import { memberTable } from "./schemas.ts";

/** Returns a page for each event type. The page shows the request that webhooks receive. */
export const eventPages = (document: JsonObject): DocPage[] =>
  eventCatalogue.kinds.map((kind) => {
    const { type, description, scope, schema, previous } = kind;
    const { schemas } = document.components as { schemas: Record<string, JsonObject> };
    return {
      path: eventPath(type),
      title: type,
      kind: "Event",
      summary: description,
      markdown: paragraphs(
        `# ${type}`,
        description,
        `To subscribe to this event and to read it, a key needs the scope \`${scope}\` in addition to the scopes for webhooks.`,
        "## What is sent",
        `The body of the request is a [${payloadName(type)}](${schemaPath(payloadName(type))}). The request is signed, as the [webhooks guide](/docs/guides/webhooks) describes.`,
        jsonFence(exampleBodyOf(kind)),
        "## Its data",
        `\`data\` is a [${schema}](${schemaPath(schema)}).`,
        previous !== undefined && "`previous` has the previous values of the changed members of `data`, including `updated_at`.",
        schemas[schema] && memberTable(schemas[schema]),
      ),
    };
  });
