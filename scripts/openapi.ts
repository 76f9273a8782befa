import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createResources } from "../src/api/api.ts";
import { openApiDocument } from "../src/api/openapi.ts";
import { eventCatalogue } from "../src/event-catalogue.ts";

// `npm run openapi`: writes the OpenAPI document as the code has it now, to where it is served from. A test fails where it is stale.
const file = join(import.meta.dirname, "../public/api/v1/openapi.json");
writeFileSync(file, `${JSON.stringify(openApiDocument(createResources(eventCatalogue)), null, 2)}\n`);
