import type { JsonObject } from "../openapi/document.ts";
import { type DocPage, originPlaceholder } from "./page.ts";
import { errorPages } from "./pages/errors.ts";
import { eventPages } from "./pages/events.ts";
import { guidePages } from "./pages/guides.ts";
import { indexPage } from "./pages/index.ts";
import { operationPages } from "./pages/operations.ts";
import { schemaPages } from "./pages/schemas.ts";

/** Every page of the documentation, made from the document, the catalogue of events and the code. */
export function docPages(document: JsonObject): DocPage[] {
  const pages = [
    ...guidePages(document, originPlaceholder),
    ...operationPages(document),
    ...eventPages(document),
    ...errorPages(document, originPlaceholder),
    ...schemaPages(document),
  ];
  return [indexPage(document, pages), ...pages];
}
