import type { EventCatalogue } from "../events/catalogue.ts";
import type { Json, JsonObject } from "../openapi-document.ts";
import type { DocPage } from "./page.ts";
import { errorPages } from "./pages/errors.ts";
import { eventPages } from "./pages/events.ts";
import { guidePages } from "./pages/guides.ts";
import { indexPage } from "./pages/index.ts";
import { operationPages } from "./pages/operations.ts";
import { schemaPages } from "./pages/schemas.ts";

/** Every page of the documentation, made from the document, the catalogue of events and the code. `origin`: of the service that serves them. */
export function docPages(document: JsonObject, catalogue: EventCatalogue, origin: string): DocPage[] {
  const pages = [
    ...guidePages(catalogue, origin),
    ...operationPages(document, origin),
    ...eventPages(document, catalogue),
    ...errorPages(document, origin),
    ...schemaPages(document, (schema) => schema.example ?? (schema.examples as Json[] | undefined)?.[0]),
  ];
  return [indexPage(document, pages), ...pages];
}
