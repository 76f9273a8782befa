import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { createResources } from "../src/api/api.ts";
import { openApiDocument } from "../src/api/openapi.ts";
import { eventCatalogue } from "../src/event-catalogue.ts";

// `npm run openapi`: writes the OpenAPI document as the code has it now, to where it is served from. A test fails where it is stale.
const folder = join(import.meta.dirname, "../public/api/v1");
const document = openApiDocument(createResources(eventCatalogue), eventCatalogue);
writeFileSync(join(folder, "openapi.json"), `${JSON.stringify(document, null, 2)}\n`);
writeFileSync(join(folder, "openapi.yaml"), stringify(document, { aliasDuplicateObjects: false }));
