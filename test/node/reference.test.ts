import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { documentScript, readOpenApi } from "../../scripts/settings/reference.ts";
import { Settings } from "../../scripts/settings/schema.ts";

const folder = mkdtempSync(join(tmpdir(), "developer-overview-openapi-"));
afterAll(() => rmSync(folder, { recursive: true }));

function read(text: string) {
  const path = join(folder, "openapi.yaml");
  writeFileSync(path, text);
  return readOpenApi(path);
}
const head = "openapi: 3.1.0\ninfo: { title: Acme, version: '1' }\n";

it.each([
  ["YAML that ends too early", `${head}paths: {`, "no valid YAML, at line 3"],
  ["JSON with a comma too many", '{"openapi": "3.1.0",}', "no valid JSON"],
  ["a list", "- openapi: 3.1.0", "must be an object"],
  ["an empty file", "", "must be an object"],
  ["a document without a version", "info: { title: Acme }\npaths: {}", '"openapi" of 3.0, 3.1 or 3.2'],
  ["AsyncAPI", "asyncapi: 3.0.0\ninfo: { title: Acme }", '"openapi" of 3.0, 3.1 or 3.2'],
  ["a document without a title", "openapi: 3.1.0\npaths: {}", "#/info/title"],
  ["a document without paths", head, "must have paths"],
  [
    "a reference to another file",
    `${head}paths: { /a: { $ref: './a.yaml' } }`,
    '#/paths/~1a: The reference "./a.yaml" leads to another file',
  ],
  ["a reference that cannot be decoded", `${head}paths: { /a: { $ref: '#/components/%' } }`, '"#/components/%" leads nowhere'],
  ["an anchor within itself", `${head}paths: {}\ncomponents: &all { schemas: *all }`, "The anchor contains itself"],
  ["a reference to nothing", `${head}paths: { /a: { $ref: '#/components/none' } }`, '"#/components/none" leads nowhere'],
])("brand.openapi refuses %s, and says what is wrong", (_, text, message) => {
  expect(() => read(text)).toThrow(message);
  expect(() => read(text)).toThrow("brand.openapi: openapi.yaml");
});

it("brand.openapi reads OpenAPI 3.0, 3.1, 3.2 and Swagger 2.0, with a byte order mark and with parts that refer to themselves", () => {
  for (const version of ["openapi: 3.0.3", "openapi: 3.1.0", "openapi: 3.2.0", 'swagger: "2.0"'])
    expect(read(`\ufeff${version}\ninfo: { title: Acme }\npaths: {}`).info).toEqual({ title: "Acme" });
  const circle = `${head}paths: {}\ncomponents: { schemas: { Node: { properties: { next: { $ref: '#/components/schemas/Node' } } } } }`;
  expect(read(circle).openapi).toBe("3.1.0");
  // An example is a value of the API, in which `$ref` means nothing.
  const example = `${head}paths: {}\ncomponents: { examples: { One: { value: { $ref: 'a text' } } } }`;
  expect(read(example).openapi).toBe("3.1.0");
  expect(read(`${head}paths: { /a: { get: { example: { order: { $ref: './a text' } } } } }`).openapi).toBe("3.1.0");
});

it("A document cannot end the script that carries it", () => {
  const { brand } = Settings.parse({});
  const script = documentScript(read(`${head.replace("Acme", '"</script><script>stolen()"')}paths: {}`), brand);
  expect(script).not.toMatch(/<|\u2028/);
  const window: { reference?: { content: { info: { title: string } } } } = {};
  new Function("window", script)(window);
  expect(window.reference?.content.info.title).toBe("</script><script>stolen()");
});
