import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, it } from "vitest";
import { root } from "../node/project.ts";

// Each client is installed as its README says, in an empty folder.

const folder = mkdtempSync(join(tmpdir(), "developer-overview-install-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const run = async (cwd: string, program: string, ...args: string[]): Promise<string> =>
  (await promisify(execFile)(program, args, { cwd, env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1" } })).stdout.trim();

/** Creates an empty folder. */
const emptyFolder = () => mkdtempSync(join(folder, "empty-"));

it("The client for Node works from its package, without other packages", { timeout: 60_000 }, async () => {
  const [packed, app] = [emptyFolder(), emptyFolder()];
  await run(join(root, "integrations/node"), "npm", "pack", "--silent", "--pack-destination", packed);
  const [tarball = ""] = readdirSync(packed);
  await run(app, "npm", "init", "-y");
  await run(app, "npm", "install", "--offline", "--no-audit", "--no-fund", join(packed, tarball));
  expect(readdirSync(join(app, "node_modules")).filter((name) => !name.startsWith("."))).toEqual(["developer-overview-middleware"]);
  const lines = [
    'import * as client from "developer-overview-middleware";',
    'const verifier = new client.Verifier({ url: "http://127.0.0.1:9", token: "svc_test" });',
    'const answer = await verifier.verify({ key: "" });',
    "console.log(answer.status, Object.keys(client).sort().join());",
    "await verifier.close();",
  ];
  writeFileSync(join(app, "app.mjs"), lines.join("\n"));
  expect(await run(app, "node", "app.mjs")).toBe("503 Verifier,express,fastify,hono,nodeHttp,verifyUpgrade");
});

it("The client for Python works from its wheel, with the standard library alone", { timeout: 60_000 }, async () => {
  const [source, app] = [join(folder, "python"), emptyFolder()];
  cpSync(join(root, "integrations/python"), source, { recursive: true });
  const pip = ["-m", "pip", "--disable-pip-version-check", "--quiet"];
  await run(source, "/usr/bin/python3", ...pip, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", app, ".");
  const [wheel = ""] = readdirSync(app);
  expect(wheel).toMatch(/^developer_overview_middleware-[\d.]+-py3-none-any\.whl$/);
  await run(app, "/usr/bin/python3", ...pip, "install", "--no-index", "--no-deps", "--target", "packages", wheel);
  const lines = [
    "import sys",
    "sys.path.insert(0, 'packages')",
    "from developer_overview import AsgiMiddleware, Verifier, WsgiMiddleware",
    "verifier = Verifier('http://127.0.0.1:9', 'svc_test')",
    "print(verifier.verify({'key': ''})['status'])",
    "verifier.close()",
  ];
  writeFileSync(join(app, "app.py"), lines.join("\n"));
  // Without the packages of the system.
  expect(await run(app, "/usr/bin/python3", "-I", "-S", "-c", `exec(open("app.py").read())`)).toBe("503");
});

it("The client for Go is a module that another one can require", { timeout: 120_000 }, async () => {
  const app = emptyFolder();
  const lines = [
    "package main",
    'import ("fmt"; "developeroverview")',
    "func main() {",
    '  _, err := developeroverview.New(developeroverview.Options{URL: "http://127.0.0.1:9", Token: "svc_test", OnUnavailable: "allow"})',
    "  fmt.Println(err != nil)",
    "}",
  ];
  writeFileSync(join(app, "main.go"), lines.join("\n"));
  await run(app, "go", "mod", "init", "app");
  await run(
    app,
    "go",
    "mod",
    "edit",
    "-require",
    "developeroverview@v0.0.0",
    "-replace",
    `developeroverview=${join(root, "integrations/go")}`,
  );
  expect(await run(app, "go", "run", ".")).toBe("true");
});

it("The client for Go and the agent come by go get, from the path of a module in a settings file", { timeout: 240_000 }, async () => {
  const [proxy, app, settings] = [emptyFolder(), emptyFolder(), join(emptyFolder(), "settings.json")];
  writeFileSync(settings, JSON.stringify({ goModule: "acme.dev/Api/overview" }));
  await run(root, "npm", "run", "--silent", "pack:go", "--", proxy, settings);
  const go = async (...args: string[]) => {
    const env = {
      ...process.env,
      GOPROXY: `file://${proxy}`,
      GONOSUMDB: "*",
      GOFLAGS: "-mod=mod",
      GOMODCACHE: join(folder, "modules"),
      GOBIN: app,
    };
    return (await promisify(execFile)("go", args, { cwd: app, env })).stdout.trim();
  };
  await go("mod", "init", "app");
  await go("get", "acme.dev/Api/overview@v0.1.0");
  const lines = [
    "package main",
    'import ("fmt"; "acme.dev/Api/overview")',
    "func main() {",
    '  verifier, _ := developeroverview.New(developeroverview.Options{URL: "http://127.0.0.1:9", Token: "svc_test"})',
    "  fmt.Println(verifier.Stats().Decisions)",
    "}",
  ];
  writeFileSync(join(app, "main.go"), lines.join("\n"));
  expect(await go("run", ".")).toBe("0");
  await go("install", "acme.dev/Api/overview/overview-agent@v0.1.0");
  expect(readdirSync(app)).toContain("overview-agent");
  // The cache of modules is read-only.
  await go("clean", "-modcache");
});
