import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { root } from "./project.ts";

// Generated clients compile the patterns of the OpenAPI documents with the engine of their own language. RE2, which Go has, and the engine of Rust know neither
// look-around nor \\uXXXX.

const patterns = new Set<string>();
for (const api of ["v1", "team"])
  JSON.parse(readFileSync(join(root, `public/api/${api}/openapi.json`), "utf8"), (name, value: unknown) => {
    if (name === "pattern" && typeof value === "string") patterns.add(value);
    return value;
  });

const program = `package main
import ("encoding/json"; "fmt"; "os"; "regexp")
func main() {
	var patterns []string
	if err := json.NewDecoder(os.Stdin).Decode(&patterns); err != nil { panic(err) }
	for _, each := range patterns { if _, err := regexp.Compile(each); err != nil { fmt.Println(err) } }
}
`;

describe("The patterns of the OpenAPI documents", () => {
  it("compile in JavaScript with and without the flag u, and have nothing that Rust does not know", () => {
    expect(patterns.size).toBeGreaterThan(10);
    for (const each of patterns) {
      expect(() => [new RegExp(each), new RegExp(each, "u")], each).not.toThrow();
      expect(each).not.toMatch(/\(\?[=!<]|\\u|\\[1-9]/);
    }
  });

  it("compile in Python", () => {
    const check = "import json,re,sys\nfor each in json.load(sys.stdin): re.compile(each)";
    execFileSync("python3", ["-c", check], { input: JSON.stringify([...patterns]) });
  });

  it.runIf(spawnSync("go", ["version"]).status === 0)("compile in Go", () => {
    const folder = mkdtempSync(join(tmpdir(), "patterns-"));
    writeFileSync(join(folder, "main.go"), program);
    const out = execFileSync("go", ["run", join(folder, "main.go")], { input: JSON.stringify([...patterns]), encoding: "utf8" });
    rmSync(folder, { recursive: true });
    expect(out).toBe("");
  });
});

it("The OpenAPI documents are ASCII, so that YAML and bundlers of any kind read them", () => {
  for (const file of ["v1/openapi.json", "v1/openapi.yaml", "team/openapi.json"])
    expect(/[^\n\x20-\x7e]/.exec(readFileSync(join(root, "public/api", file), "utf8")), file).toBeNull();
});
