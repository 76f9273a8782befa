import type { JsonObject } from "../../src/api/openapi/document.ts";
import { type DocPage, originPlaceholder } from "../../src/docs/page.ts";
import { errorPages } from "./pages/errors.ts";
import { eventPages } from "./pages/events.ts";
import { guidePages } from "./pages/guides.ts";
import { indexPage } from "./pages/index.ts";
import { operationPages } from "./pages/operations.ts";
import { schemaPages } from "./pages/schemas.ts";

/** Returns every page of the documentation. The pages are built from the OpenAPI document, the guides, the event catalogue and the code. */
export function docPages(document: JsonObject, guides: Readonly<Record<string, string>>): DocPage[] {
  const pages = [
    ...guidePages(document, originPlaceholder, guides),
    ...operationPages(document),
    ...eventPages(document),
    ...errorPages(document, originPlaceholder),
    ...schemaPages(document),
  ];
  return [indexPage(document, pages), ...pages];
}
