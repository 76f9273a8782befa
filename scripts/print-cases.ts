import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import cases from "../integrations/cases.json" with { type: "json" };
import { root } from "./root.ts";

// `npm run test:integrations` prints which client holds which case of integrations/cases.json.

const file = join(root, "node_modules/.cache/cases.json");
if (existsSync(file)) {
  const matrix = JSON.parse(readFileSync(file, "utf8")) as Record<string, Record<string, string>>;
  const clients = [...new Set(Object.values(matrix).flatMap((results) => Object.keys(results)))];
  const signs = (results: Record<string, string>) =>
    clients
      .map((client) => (results[client] === "holds" ? "+" : results[client] === "fails" ? "!" : results[client] ? "-" : " "))
      .join(" ");
  console.log(`Cases: + holds, - not possible, ! fails. Clients: ${clients.join(", ")}.`);
  for (const { name } of cases.cases) console.log(`${signs(matrix[name] ?? {})}  ${name}`);
  for (const [name, results] of Object.entries(matrix))
    for (const [client, result] of Object.entries(results))
      if (!["holds", "fails"].includes(result)) console.log(`- ${client}, ${name}: ${result}`);
}
