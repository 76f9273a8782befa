import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { wcagContrast } from "culori";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isWorse, waitForVersion } from "../../scripts/deploy/watch.ts";
import { jsonIn } from "../../scripts/deploy/wrangler.ts";
import { root } from "../../scripts/root.ts";
import { accentsOf, safeSvg } from "../../scripts/settings/brand-files.ts";
import { Settings } from "../../scripts/settings/schema.ts";
import { defaultSettings } from "../../src/lib/default-settings.ts";
import { listen } from "./listen.ts";
import { copyProject, removeProject } from "./project.ts";

let folder: string;
let settings: typeof import("../../scripts/settings/load.ts") & typeof import("../../scripts/settings/files.ts");
let deployments: typeof import("../../scripts/deploy/deployment.ts");
let configs: typeof import("../../scripts/deploy/environment.ts");
beforeAll(async () => {
  folder = copyProject();
  const partOf = (name: string) => import(pathToFileURL(join(folder, "scripts/settings", name)).href);
  settings = { ...(await partOf("load.ts")), ...(await partOf("files.ts")) };
  deployments = await import(pathToFileURL(join(folder, "scripts/deploy/deployment.ts")).href);
  configs = await import(pathToFileURL(join(folder, "scripts/deploy/environment.ts")).href);
});
afterAll(() => removeProject(folder));

/** Writes the settings of environments, and deletes all others. */
function write(files: Record<string, string>): void {
  for (const name of settings.environments()) rmSync(join(folder, settings.settingsFile(name)), { force: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
}

describe("The settings of a team", () => {
  it("have the defaults that overview.example.toml shows, also without a file", () => {
    write({});
    const defaults = Settings.parse({});
    expect(settings.readSettings()).toEqual(defaults);
    expect(settings.buildSettings(defaults)).toEqual({ settings: defaultSettings, files: {} });
    write({ "overview.toml": readFileSync(join(root, "overview.example.toml"), "utf8") });
    expect(settings.readSettings()).toEqual(defaults);
    const names = (of: object): string[] =>
      Object.entries(of).flatMap(([name, value]) => [name, ...(Array.isArray(value) || typeof value !== "object" ? [] : names(value))]);
    const shown = readFileSync(join(root, "overview.example.toml"), "utf8");
    expect(names(defaults).filter((name) => !new RegExp(`^(?:# )?\\[*${name}\\b`, "m").test(shown))).toEqual([]);
  });

  it("are read from a file that begins with a byte order mark and ends its lines with CRLF", () => {
    write({ "overview.toml": '\ufeff[brand]\r\nname = "Acme"\r\n' });
    expect(settings.readSettings().brand.name).toBe("Acme");
  });

  it.each([
    ['[brand]\nname = "A"\ncolour = "#fff"\n', "overview.toml, line 3: brand.colour: There is no such setting."],
    ["[brand]\nname = 7\n", "overview.toml, line 2: brand.name: "],
    ['[brand]\naccent = "violet"\n', 'overview.toml, line 2: brand.accent: Must be a colour like "#6d28d9".'],
    ['[brand]\n\nkey_prefixes = [\n  "acme",\n  "svc",\n]\n', "overview.toml, line 5: brand.key_prefixes[1]: svc_ begins other secrets"],
    [
      '[[scopes]]\nname = "orders:read"\n[[scopes]]\nname = "orders"\n',
      "overview.toml, line 4: scopes[1].name: Must have the form resource:action.",
    ],
    ['[portal]\nhosts = ["http://app.acme.dev"]\n', "overview.toml, line 2: portal.hosts[0]: Must be an origin"],
    ['[location]\nregion = "mars"\n', "overview.toml, line 2: location.region: "],
    ["[brand\n", "overview.toml, line "],
    ['[brand]\nname = "A\\nB"\n', "overview.toml, line 2: brand.name: Must have no line breaks"],
    ['[brand]\nfirst_request = "GET /x$(id)"\n', "overview.toml, line 2: brand.first_request: "],
    ['[brand]\nlogo = "none.svg"\n', "brand.logo: "],
    ['[brand]\naccent = "#8ab4f8"\n', "The nearest colour that can be read is #"],
  ])("are refused by file, line and member: %j", (text, message) => {
    write({ "overview.toml": text });
    expect(() => settings.buildSettings(settings.readSettings())).toThrow(message);
  });
});

it("The name is asked for only if nothing is stored, and is stored in its table", () => {
  const stored = () => readFileSync(join(folder, "overview.toml"), "utf8");
  write({});
  expect(settings.lacksName()).toBe(true);
  settings.storeName("");
  expect([settings.lacksName(), stored()]).toEqual([false, '[brand]\nname = ""\n']);
  write({ "overview.toml": 'brand.area = "Developers"\n' });
  expect(() => settings.storeName("Acme")).toThrow("has no line [brand], so set brand.name there");
  write({ "overview.toml": '[api]\nkey_headers = "X-Acme"\n\n[brand]\narea = "Developers"\n' });
  expect(settings.lacksName()).toBe(true);
  settings.storeName('Acme "$&"');
  expect([settings.lacksName(), settings.readSettings().brand]).toMatchObject([false, { name: 'Acme "$&"', area: "Developers" }]);
});

it("A prefix that keys in use have cannot be left out", () => {
  const { requirePrefixes } = settings;
  const acme = Settings.parse({ brand: { key_prefixes: ["acme_live", "acme"] } });
  expect(() => requirePrefixes(acme, [{ prefix: "acme" }, { prefix: "acme_live" }])).not.toThrow();
  expect(() => requirePrefixes(acme, [{ prefix: "acme" }, { prefix: "dvo" }])).toThrow('Keys with the prefix "dvo" are in use');
});

describe("The configuration of an environment", () => {
  const refused: [string, string | null, string][] = [
    ["t-qa", '[api]\npublic_origin = "http://qa.acme.dev"', 'an entry that is no https:// URL: "http://qa.acme.dev"'],
    ["t-qa", '[api]\npublic_origin = "qa.acme.dev:443"', 'an entry that is no https:// URL: "qa.acme.dev:443"'],
    ["t-qa", "[api]\npublic_origin = 7", "overview.t-qa.toml, line 2: api.public_origin: "],
    ["t-qa", "name = 1\n", "overview.t-qa.toml, line 1: name: There is no such setting."],
    ["t-none", null, 'There is no environment "t-none"'],
    ["../wrangler", null, "There is no environment"],
    ["production", "", "nothing reads overview.production.toml"],
  ];
  it.each(refused)("is refused with a sentence: %s, %j", async (name, text, sentence) => {
    write(text === null ? {} : { [`overview.${name}.toml`]: text });
    await expect(deployments.readDeployment(name)).rejects.toThrow(sentence);
    rmSync(join(folder, `overview.${name}.toml`), { force: true });
  });

  it("keeps the address under workers.dev that it names, and has as many activity databases as the settings say", async () => {
    write({
      "overview.qa.toml": '[api]\npublic_origin = ["https://qa.acme.workers.dev", "https://qa.acme.dev"]\n[log]\ndays = 7\ndatabases = 2\n',
    });
    const { config } = await deployments.readDeployment("qa");
    const written = JSON.parse(readFileSync(config, "utf8"));
    expect(written).toMatchObject({
      vars: { ACTIVITY_DAYS: "7" },
      workers_dev: true,
      routes: [{ pattern: "qa.acme.dev", custom_domain: true }],
    });
    expect(written.d1_databases.map((each: { database_name: string }) => each.database_name)).toEqual([
      "developer-overview-qa",
      "developer-overview-qa-activity-0",
      "developer-overview-qa-activity-1",
    ]);
  });

  it.each(["production", "staging"])("limits CPU time and queue consumers, and contains no database ids: %s", (env) => {
    write({ "overview.staging.toml": "" });
    const config = configs.configOf(env);
    expect(config).toMatchObject({ limits: { cpu_ms: 10_000 }, queues: { consumers: [{ max_concurrency: 10 }, { max_concurrency: 1 }] } });
    for (const database of config.d1_databases)
      expect(Object.keys(database).toSorted()).toEqual(["binding", "database_name", "migrations_dir"]);
    const dead = config.queues.consumers.flatMap(({ dead_letter_queue }) => dead_letter_queue ?? []);
    expect(dead).toEqual([config.vars.DEAD_DELIVERIES_QUEUE]);
  });

  it("has the bindings and the settings of production, resources of its own, and no place of production", () => {
    write({
      "overview.toml":
        '[brand]\nname = "Acme"\n[api]\npublic_origin = "https://acme.dev"\nkey_headers = ["X-Acme"]\n[location]\nregion = "weur"\n',
      "overview.staging.toml": '[brand]\narea = "Staging"\n[log]\ndays = 7\n',
    });
    const [one, other] = [configs.configOf("production"), configs.configOf("staging")];
    const changed = Object.keys(one.vars).filter((name) => one.vars[name] !== other.vars[name]);
    expect(changed.toSorted()).toEqual(["ACTIVITY_DAYS", "DEAD_DELIVERIES_QUEUE", "PUBLIC_ORIGIN", "REGION"]);
    expect(JSON.parse(other.define?.SETTINGS ?? "").brand).toMatchObject({ name: "Acme", area: "Staging", userAgent: "Acme-Webhooks/1" });
    const { name: _, vars: __, d1_databases: ___, queues: ____, define: _____, build: ______, placement: _______, ...shared } = one;
    expect(other).toMatchObject(shared);
    expect([one.placement, other.placement]).toEqual([{ region: "aws:eu-west-2" }, { mode: "smart" }]);
  });
});

describe("A picture of a brand", () => {
  it("keeps its shapes, and loses scripts, styles, events and references to other files", () => {
    const given = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" onload="x()" viewBox="0 0 9 9"><style>@import url(//a.b)</style>
      <script>x()</script><defs><linearGradient id="g"><stop offset="0" stop-color="#fff"/></linearGradient></defs><a href="javascript:x()"><path d="M0 0"/></a>
      <path d="M1 1h7" fill="url(#g)" style="fill:url(//a.b)"/><use xlink:href="#g"/><use href="https://a.b/c.svg#d"/><rect fill="url(https://a.b)" x="1"/>
      <image href="https://a.b"/><foreignObject><body xmlns="http://www.w3.org/1999/xhtml">x</body></foreignObject></svg>`;
    const safe = safeSvg(given);
    expect(safe).toMatch(/<path d="M1 1h7" fill="url\(#g\)"\/>/);
    expect(safe).toContain('<use href="#g"/>');
    expect(safe).not.toMatch(/script|style|onload|foreign|image|javascript|a\.b|<a\b|xlink/);
  });

  it.each(["<html/>", "no picture", '<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>'])(
    "is refused if it is none: %s",
    (text) => {
      expect(() => safeSvg(text)).toThrow();
    },
  );
});

it.each(["#6d28d9", "#0f766e", "#b91c1c", "#111111", "#2446c8"])("The accent %s can be read in both themes", (accent) => {
  const { light, dark } = accentsOf(accent);
  for (const ground of ["#ffffff", "#f6f7f9"]) expect(wcagContrast(light, ground)).toBeGreaterThanOrEqual(4.5);
  for (const ground of ["#171b21", "#0f1216"]) expect(wcagContrast(dark, ground)).toBeGreaterThanOrEqual(4.5);
});

it("A version is worse than the previous one if it fails more than 1 %, five times or more, and more than twice as often", () => {
  expect(isWorse({ requests: 100, failed: 5 }, { requests: 900, failed: 0 })).toBe(true);
  expect(isWorse({ requests: 100, failed: 4 }, { requests: 900, failed: 0 })).toBe(false);
  expect(isWorse({ requests: 1000, failed: 10 }, { requests: 9000, failed: 0 })).toBe(false);
  expect(isWorse({ requests: 100, failed: 10 }, { requests: 900, failed: 45 })).toBe(false);
  expect(isWorse({ requests: 100, failed: 11 }, { requests: 900, failed: 45 })).toBe(true);
  expect(isWorse({ requests: 0, failed: 0 }, { requests: 0, failed: 0 })).toBe(false);
});

it("A deploy waits until the new version responds and is healthy but for a cron that it attaches again, and names the last response", async () => {
  const [fail, pass] = [[{ status: "fail" }], [{ status: "pass" }]];
  const responses = [
    { releaseId: "old", status: "pass" },
    { releaseId: "new", status: "fail", checks: { "database:main": fail, "cron:jobs": fail } },
    { releaseId: "new", status: "fail", checks: { "database:main": pass, "cron:jobs": fail } },
  ];
  let requests = 0;
  const server = createServer((_, response) => response.end(JSON.stringify(responses[Math.min(requests++, responses.length - 1)])));
  const target = { worker: "w", origin: `http://127.0.0.1:${await listen(server)}` };
  await waitForVersion(target, "new", 2000);
  expect(requests).toBe(3);
  await expect(waitForVersion(target, "newest", 400)).rejects.toMatchObject({ exitCode: 3, message: expect.stringContaining("as new") });
  server.close();
  await expect(waitForVersion(target, "new", 400)).rejects.toMatchObject({ exitCode: 3 });
});

it("wrangler's JSON is read also among other lines", () => {
  expect(jsonIn('[WARNING] x\n{\n  "a": [1]\n}\n▲ There is a newer version of Wrangler available [4.200.0]\n')).toEqual({ a: [1] });
  expect(() => jsonIn("nothing")).toThrow("wrangler printed no JSON");
});
