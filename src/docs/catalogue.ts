import type { EventCatalogue } from "../events/catalogue.ts";
import type { JsonObject } from "../openapi-document.ts";
import type { OwnIds } from "./own-ids.ts";
import type { DocPage } from "./page.ts";
import { errorPages } from "./pages/errors.ts";
import { eventPages } from "./pages/events.ts";
import { guidePages } from "./pages/guides.ts";
import { indexPage } from "./pages/index.ts";
import { operationPages } from "./pages/operations.ts";
import { schemaPages } from "./pages/schemas.ts";

/** Every page of the documentation, made from the document, the catalogue of events and the code. `origin`: of the service that serves them; `ids`: those that samples name. */
export function docPages(document: JsonObject, catalogue: EventCatalogue, served: { origin: string; ids: OwnIds | null }): DocPage[] {
  const { origin } = served;
  const pages = [
    ...guidePages(document, catalogue, origin),
    ...operationPages(document, served),
    ...eventPages(document, catalogue),
    ...errorPages(document, origin),
    ...schemaPages(document),
  ];
  return [indexPage(document, pages), ...pages];
}
