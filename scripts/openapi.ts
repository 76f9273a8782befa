import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { routers } from "../src/surfaces/mounts.ts";
import { openApiDocument } from "./openapi/document.ts";

// `npm run openapi`: writes the OpenAPI document as the code has it now, to where it is served from. A test fails where it is stale.
const folder = join(import.meta.dirname, "../public/api/v1");
const document = openApiDocument(routers);
writeFileSync(join(folder, "openapi.json"), `${JSON.stringify(document, null, 2)}\n`);
writeFileSync(join(folder, "openapi.yaml"), stringify(document, { aliasDuplicateObjects: false }));
