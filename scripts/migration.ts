import { spawnSync } from "node:child_process";
import { appendFileSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tablesOfAccounts } from "../src/db/registry/area-tables.ts";
import { missingStatements } from "./storage-counting.ts";

// `npm run migration -- NAME` compares the existing migrations with the tables in `src/`, and writes the missing migrations. The migrations
// also create the columns and triggers that count the bytes of rows.

const root = join(import.meta.dirname, "..");
const [name = ""] = process.argv.slice(2);
if (!/^[a-z][a-z0-9_]*$/.test(name)) {
  console.error("Name the migration: npm run migration -- projects");
  process.exit(2);
}

/** For each folder in `migrations`, the files that define its tables. */
const schemas = { main: "src/**/tables.ts", activity: "src/**/log-tables.ts" };

const filesOf = (folder: string) => globSync(`migrations/${folder}/*.sql`, { cwd: root }).toSorted();

/** Writes a migration with drizzle-kit. Returns the path of the migration. Returns undefined if drizzle-kit wrote no migration. */
function generate(folder: keyof typeof schemas, ...more: string[]): string | undefined {
  const before = new Set(filesOf(folder));
  const args = ["generate", "--dialect", "sqlite", "--schema", schemas[folder], "--out", `migrations/${folder}`, "--name", name, ...more];
  const { status, stdout, stderr } = spawnSync("drizzle-kit", args, { cwd: root, encoding: "utf8" });
  if (status !== 0) throw new Error(`drizzle-kit failed:\n${stdout}${stderr}`);
  return filesOf(folder).find((file) => !before.has(file));
}

/** Adds WITHOUT ROWID to the definitions of the tables that need this clause. Drizzle has no option for WITHOUT ROWID. */
function addWithoutRowid(file: string): void {
  const made = tablesOfAccounts.filter(({ facts }) => facts.withoutRowid).map((table) => table.name);
  const text = readFileSync(join(root, file), "utf8");
  const form = new RegExp(`(CREATE TABLE \`(?:${made.join("|")})\` \\([\\s\\S]*?\\n\\));`, "g");
  writeFileSync(join(root, file), text.replaceAll(form, "$1 WITHOUT ROWID;"));
}

/** Matches the comment that drizzle-kit writes at the start of a custom migration. */
const placeholder = /^-- Custom SQL migration file.*\n?/m;

const made = [generate("main"), generate("activity")].filter((file) => file !== undefined);
for (const file of made) addWithoutRowid(file);
const missing = missingStatements(join(root, "migrations/main"));
if (missing.length > 0) {
  const own = made.find((file) => file.startsWith("migrations/main/"));
  const file = own ?? generate("main", "--custom");
  if (file === undefined) throw new Error("drizzle-kit wrote no migration");
  const text = readFileSync(join(root, file), "utf8").replace(placeholder, "").trimEnd();
  writeFileSync(join(root, file), text);
  const statements = missing.map((statement) => `${statement};`).join("--> statement-breakpoint\n");
  appendFileSync(join(root, file), `${text === "" ? "" : "--> statement-breakpoint\n"}${statements}\n`);
  if (!made.includes(file)) made.push(file);
}
console.log(made.length === 0 ? "Nothing to migrate." : `Wrote ${made.join(", ")}`);
