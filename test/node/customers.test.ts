/** @module-tag process */
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { run } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// A team's customers come in one command.

let worker: RunningWorker;
const count = inject("isLong") ? 600 : 60;

beforeAll(async () => {
  worker = await startWorker();
}, 120_000);
afterAll(() => worker.stop());

const envOf = () => ({ ...process.env, OPERATOR_REMOTE: "", OPERATOR_TOKEN: "", PORT: String(worker.port) });
const operator = (...args: string[]) => run("node", ["scripts/operator.ts", ...args], { cwd: worker.folder, env: envOf() });

const secretOf = (index: number) => `northwind_${createHash("sha256").update(`secret ${index}`).digest("base64url")}`;
const keyOf = (index: number) => ({
  name: "Production",
  algorithm: "sha256",
  hash: createHash("sha256").update(secretOf(index)).digest("hex"),
});

function fileOf(name: string, lines: string[]): string {
  const file = join(worker.folder, name);
  writeFileSync(file, lines.join("\n"));
  return file;
}

describe("npm run operator -- customers import", () => {
  it("goes on after it was killed, and changes nothing when it runs again", { timeout: 300_000 }, async () => {
    expect((await operator("plans", "make", "--name", "Pro", "--key-limits", "hour=700")).code).toBe(0);
    const customers = Array.from({ length: count }, (_, index) => ({
      external_id: `cus_${index}`,
      name: `Customer ${index}`,
      email: `owner${index}@example.com`,
      plan: "Pro",
      metadata: { region: "eu" },
      keys: [keyOf(index)],
    }));
    const file = fileOf(
      "customers.ndjson",
      customers.map((customer) => JSON.stringify(customer)),
    );
    const dry = await operator("customers", "import", file, "--dry-run");
    expect([dry.code, dry.err]).toEqual([0, expect.stringContaining(`${count} would be created`)]);
    const killed = spawn("node", ["scripts/operator.ts", "customers", "import", file], { cwd: worker.folder, env: envOf() });
    await new Promise((resolve) => killed.stdout.once("data", resolve));
    await sleep(50);
    killed.kill("SIGKILL");
    const { code, err } = await operator("customers", "import", file);
    expect([code, err]).toEqual([0, expect.stringContaining(`${count} customers: `)]);
    const again = await operator("customers", "import", file, "--json");
    expect([again.code, again.err]).toEqual([0, expect.stringContaining(`${count} customers: ${count} unchanged, ${count} keys known.`)]);
    const shown = JSON.parse(again.out.split("\n")[0] ?? "");
    const { body } = { body: JSON.parse((await operator("accounts", "find", "--external-id", shown.external_id, "--json")).out) };
    expect(body.data).toMatchObject([{ name: `Customer ${shown.line - 1}`, email: `owner${shown.line - 1}@example.com` }]);
  });

  it("reads CSV, and says for each row what is wrong with it", async () => {
    const json = (value: unknown) => `"${JSON.stringify(value).replaceAll('"', '""')}"`;
    const file = fileOf("customers.csv", [
      "\uFEFFexternal_id,name,email,plan,metadata,keys",
      `csv_1,"Acme, Inc.",,,${json({ tier: 2 })},${json([keyOf(9001)])}`,
      "csv_2,,,,,",
      "csv_3,Beta,,Gold,,",
      `csv_4,Gamma,,,,${json([{ ...keyOf(9002), hash: "0x12" }, keyOf(9003)])}`,
      "..,Delta,,,,",
      'csv_6,Epsilon,,,,"[{"',
    ]);
    const { code, out } = await operator("customers", "import", file, "--json");
    const rows = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line))
      .toSorted((one, other) => one.line - other.line);
    expect(code).toBe(1);
    expect(rows.map(({ account, keys }) => [account, keys.new, keys.refused])).toEqual([
      ["created", 1, 0],
      ["refused", 0, 0],
      ["refused", 0, 0],
      ["created", 1, 1],
      ["refused", 0, 0],
      ["refused", 0, 0],
    ]);
    expect(rows[1].errors[0]).toMatch(/name/);
    expect(rows[2].errors[0]).toBe('plan: There is no plan "Gold".');
    expect(rows[3].errors[0]).toMatch(/^keys\.0: .*0x/);
    expect(rows[4].errors[0]).toMatch(/external_id/);
    expect(rows[5].errors[0]).toMatch(/keys/);
    expect((await operator("customers", "import", "nowhere.csv")).code).toBe(2);
  });

  it("reads the CSV of Excel, takes each customer once, and says what is wrong with a file", async () => {
    const importing = (name: string, lines: string[]) => operator("customers", "import", fileOf(name, lines), "--json");
    const semicolons = await importing("semicolons.csv", ["\uFEFFexternal_id;name\r", 'semi_1;"Acme; Inc."\r', ""]);
    expect([semicolons.code, semicolons.out]).toEqual([0, expect.stringContaining('"account":"created"')]);
    const twice = await importing("twice.ndjson", ['{"external_id":"twice_1","name":"A"}', '{"external_id":"twice_1","name":"B"}']);
    expect([twice.code, twice.out]).toEqual([1, expect.stringContaining("external_id: Row 1 has it, too.")]);
    const broken = await importing("broken.ndjson", ["{bad", '{"external_id":"broken_1","name":"A"}']);
    expect([broken.code, broken.out]).toEqual([1, expect.stringContaining("The row is not valid JSON.")]);
    const unknown = await importing("unknown.csv", ["external_id,name,colour", "unknown_1,A,red"]);
    expect([unknown.code, unknown.out]).toEqual([1, expect.stringContaining('There is no member or column \\"colour\\".')]);
    for (const [name, lines, message] of [
      ["empty.csv", [], "has no rows"],
      ["short.csv", ["external_id,name", "short_1"], "cannot be read after row 0"],
      ["quote.csv", ["external_id,name", "quote_1,A", 'quote_2,Open "quote'], "cannot be read after row"],
    ] as const) {
      const { code, err } = await importing(name, [...lines]);
      expect([name, code, err]).toEqual([name, 2, expect.stringContaining(message)]);
      expect(err).not.toMatch(/^\s+at /m);
    }
    const folder = await operator("customers", "import", worker.folder);
    expect([folder.code, folder.err]).toEqual([2, expect.stringContaining("cannot be read")]);
  });

  it("imports keys that work", async () => {
    const secret = `northwind_${randomBytes(24).toString("hex")}`;
    const hash = createHash("sha256").update(secret).digest("hex");
    const row = { external_id: "works_1", name: "Works", keys: [{ name: "Production", algorithm: "sha256", hash }] };
    expect((await operator("customers", "import", fileOf("one.ndjson", [JSON.stringify(row)]))).code).toBe(0);
    const { data } = JSON.parse((await operator("accounts", "find", "--external-id", "works_1", "--json")).out);
    const keys = JSON.parse((await operator("keys", "list", data[0].id, "--json")).out);
    expect(keys.data).toMatchObject([{ name: "Production", status: "active" }]);
  });
});
