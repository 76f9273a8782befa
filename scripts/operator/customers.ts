import type { Command } from "./command.ts";

export const customers: Record<string, Command> = {
  import: {
    form: "import FILE [--dry-run]",
    what: "create or update accounts with their plans and keys from a file: NDJSON, or CSV",
    args: 1,
    options: { "dry-run": "boolean" },
    // It loads the schemas of the Worker. The other commands start much sooner without them.
    run: async (given) => (await import("./import-customers.ts")).importCustomers(given),
  },
};
