import { applyMigrations, ensureStateDirectory, seedLocalData } from "../../scripts/local.ts";
import { ensureSecrets } from "../../scripts/local-secrets.ts";

// Usage: `node test/node/seed-demo.ts`. Creates the demo account in the local data of the checkout with this file, and prints its key.

ensureStateDirectory();
ensureSecrets();
await applyMigrations();
process.stdout.write(`demo key: ${await seedLocalData()}\n`);
