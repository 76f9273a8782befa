import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type AST, getStaticTOMLValue, ParseError, parseTOML } from "toml-eslint-parser";
import type { Settings as BuiltSettings } from "../../src/lib/default-settings.ts";
import { CommandError } from "../exit-codes.ts";
import { root } from "../root.ts";
import { brandFiles, type Files } from "./brand-files.ts";
import { environments, production, settingsFile } from "./files.ts";
import { Settings } from "./schema.ts";

// Reads the settings of a team: overview.toml, and for an environment NAME what overview.NAME.toml changes. git ignores both. Without overview.toml, every
// setting has its default.

type Path = readonly PropertyKey[];
interface Source {
  file: string;
  value: Record<string, unknown>;
  ast: AST.TOMLProgram;
}

const misuse = (message: string) => new CommandError("misuse", `Nothing is done. ${message}`);

function readSource(file: string): Source {
  try {
    // Some editors put a byte order mark first.
    const ast = parseTOML(readFileSync(join(root, file), "utf8").replace(/^\ufeff/, ""), { tomlVersion: "1.0" });
    return { file, ast, value: getStaticTOMLValue(ast) as Record<string, unknown> };
  } catch (error) {
    if (error instanceof ParseError) throw misuse(`${file}, line ${error.lineNumber}: ${error.message}.`);
    throw misuse(`${file} cannot be read: ${(error as Error).message}`);
  }
}

const startsWith = (path: Path, start: Path) => start.every((each, index) => each === path[index]);

/** Returns the line of the innermost part of a member that a file has, or null if it has none of it. */
function lineOf(path: Path, { ast }: Source): number | null {
  let found: { depth: number; line: number } | null = null;
  const note = (depth: number, line: number) => {
    if (depth > (found?.depth ?? 0)) found = { depth, line };
  };
  const visit = (nodes: readonly (AST.TOMLKeyValue | AST.TOMLTable)[], base: Path) => {
    for (const node of nodes) {
      const own = node.type === "TOMLTable" ? node.resolvedKey : [...base, ...getStaticTOMLValue(node.key)];
      if (!startsWith(path, own)) continue;
      note(own.length, node.loc.start.line);
      if (node.type === "TOMLTable") visit(node.body, own);
      else if (node.value.type === "TOMLArray") {
        const element = node.value.elements[Number(path[own.length])];
        if (element) note(own.length + 1, element.loc.start.line);
      } else if (node.value.type === "TOMLInlineTable") visit(node.value.body, own);
    }
  };
  visit(ast.body[0].body, []);
  return (found as { line: number } | null)?.line ?? null;
}

const isTable = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns `base` with the values of `changes`. Tables are merged, all other values are replaced. */
function merged(base: Record<string, unknown>, changes: Record<string, unknown>): Record<string, unknown> {
  const values = Object.entries(changes).map(([name, value]) => {
    const before = base[name];
    return [name, isTable(before) && isTable(value) ? merged(before, value) : value];
  });
  return { ...base, ...Object.fromEntries(values) };
}

/** Returns settings without those that say where one deployment is. No environment takes them from overview.toml. */
function withoutPlace({ location: _, ...others }: Record<string, unknown>): Record<string, unknown> {
  const { public_origin: __, ...api } = (others.api ?? {}) as Record<string, unknown>;
  return { ...others, api };
}

const nameOf = (path: Path) =>
  path
    .map((each) => (typeof each === "number" ? `[${each}]` : `.${String(each)}`))
    .join("")
    .slice(1);

/** Reads the settings of an environment. Throws `CommandError` that names file, line and member if one is not valid, or if there is no such environment. */
export function readSettings(env = production): Settings {
  const file = settingsFile(env);
  if (!environments().includes(env))
    throw new CommandError("misuse", `There is no environment "${env}". There is ${environments().join(", ")}.`);
  const main = settingsFile();
  const hasMain = Boolean(process.env.OVERVIEW_SETTINGS) || existsSync(join(root, main));
  const sources = [...(env === production ? [] : [readSource(file)]), ...(hasMain ? [readSource(main)] : [])];
  const given = env === production ? (sources[0]?.value ?? {}) : merged(withoutPlace(sources[1]?.value ?? {}), sources[0]?.value ?? {});
  const parsed = Settings.safeParse(given);
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.slice(0, 5).map((issue) => {
    const path = issue.code === "unrecognized_keys" ? [...issue.path, issue.keys[0] ?? ""] : issue.path;
    const [where] = sources.flatMap((source) => {
      const line = lineOf(path, source);
      return line === null ? [] : [`${source.file}, line ${line}`];
    });
    const message = issue.code === "unrecognized_keys" ? "There is no such setting." : issue.message;
    return `${where ?? file}: ${nameOf(path)}: ${message}`;
  });
  throw misuse(lines.join("\n"));
}

/** Reads the prefixes of keys that can be used. A row that names none has a key with `dvo_`. The row of an imported key has the beginning of its own text. */
export const prefixesInUse =
  "SELECT DISTINCT CASE WHEN imported_prefix IS NULL THEN 'dvo' ELSE substr(imported_prefix, 1, length(imported_prefix) - 17) END AS prefix FROM api_keys WHERE state <> 'revoked' AND (imported_prefix IS NULL OR substr(imported_prefix, -16) = substr(id, 5))";

/** Throws `CommandError` if keys that can be used have a prefix that the settings do not list. */
export function requirePrefixes({ brand }: Settings, used: readonly { prefix: string }[]): void {
  const missing = used.find(({ prefix }) => !brand.key_prefixes.includes(prefix));
  if (missing === undefined) return;
  throw new CommandError(
    "refused",
    `Nothing is done. Keys with the prefix "${missing.prefix}" are in use, and brand.key_prefixes does not list it, so they would be denied. Add it at the end of the list, or revoke these keys first.`,
  );
}

/** Returns whether overview.toml says nothing about the name. The person who deploys to production is then asked once. */
export function lacksName(): boolean {
  const file = settingsFile();
  const value = existsSync(join(root, file)) ? readSource(file).value : {};
  return (value.brand as { name?: string } | undefined)?.name === undefined;
}

/** Stores the name in overview.toml. An empty name is stored, too, so that nobody is asked again. */
export function storeName(name: string): void {
  const path = join(root, settingsFile());
  const before = existsSync(path) ? readFileSync(path, "utf8") : "";
  const line = `name = ${JSON.stringify(name)}\n`;
  const table = /^\[brand\].*$/m.exec(before)?.[0];
  if (table === undefined && before !== "" && readSource(settingsFile()).value.brand !== undefined)
    throw misuse(`${settingsFile()} has no line [brand], so set brand.name there.`);
  writeFileSync(
    path,
    table === undefined ? `${before}\n[brand]\n${line}`.trimStart() : before.replace(table, () => `${table}\n${line.trimEnd()}`),
  );
}

/** What a build of the Worker contains of the settings, and the files that its pages load, by their paths below `public`. */
export interface Built {
  settings: BuiltSettings;
  files: Files;
}

/** Returns what a build of the Worker contains of the settings. Throws `CommandError` if a file of the brand cannot be used. */
export function buildSettings({ brand, scopes, portal }: Settings): Built {
  const { files, ...made } = brandFiles(brand, join(root, dirname(settingsFile())));
  const [method = "GET", path = "/"] = brand.first_request.split(" ");
  const isOwn = brand.api_url !== "" || brand.first_request !== "GET /api/v1/me";
  const [first = "dvo", ...others] = brand.key_prefixes;
  const agent = brand.name.replaceAll(/[^A-Za-z0-9._-]/g, "-");
  return {
    files,
    settings: {
      brand: {
        name: brand.name,
        area: brand.area,
        ...made,
        appUrl: brand.app_url,
        appLabel: brand.app_label || (brand.app_url === "" ? "" : `Back to ${brand.name || "your app"}`),
        support: brand.support,
        statusUrl: brand.status_url,
        termsUrl: brand.terms_url,
        privacyUrl: brand.privacy_url,
        docsUrl: brand.docs_url,
        hasReference: brand.openapi !== "",
        apiUrl: brand.api_url.replace(/\/$/, ""),
        firstRequest: isOwn ? { method, path } : null,
        keyPrefixes: [first, ...others],
        keyVariable: brand.key_variable,
        secretVariable: brand.secret_variable,
        userAgent: brand.user_agent || (agent === "" ? "Webhooks/1" : `${agent}-Webhooks/1`),
        poweredBy: brand.powered_by,
      },
      scopes,
      portal: { hosts: portal.hosts, mailUrl: portal.mail_url },
    },
  };
}

/** Writes the files of the brand that pages load, and deletes those of another brand. */
export function writeFiles(files: Files): void {
  const folder = join(root, "public", "brand");
  rmSync(folder, { recursive: true, force: true });
  for (const [path, bytes] of Object.entries(files)) {
    mkdirSync(dirname(join(root, "public", path)), { recursive: true });
    writeFileSync(join(root, "public", path), bytes);
  }
}
