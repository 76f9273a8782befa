import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parts } from "../src/api/api.ts";
import { openApiDocument } from "../src/api/openapi.ts";

// `npm run openapi`: writes the OpenAPI document as the code has it now. A test fails where the copy is stale.
writeFileSync(join(import.meta.dirname, "../docs/openapi.json"), `${JSON.stringify(openApiDocument(parts), null, 2)}\n`);
