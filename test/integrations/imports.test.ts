import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { root } from "../node/project.ts";
import { useWorker } from "./services.ts";

// Keys that the real packages have made are imported by their hashes, with the mappings of docs/team/move-your-keys-here.md.

const count = 1000;
const require = createRequire(join(import.meta.dirname, "package.json"));
const { worker, operator } = useWorker();

/** A secret that a customer has, and its row of the import. */
interface Old {
  secret: string;
  row: Record<string, unknown>;
}

async function prefixedApiKeys(): Promise<Old[]> {
  const { generateAPIKey } = require("prefixed-api-key") as {
    generateAPIKey: (options: { keyPrefix: string }) => Promise<{ token: string; shortToken: string; longTokenHash: string }>;
  };
  const keys = await Promise.all(Array.from({ length: count }, () => generateAPIKey({ keyPrefix: "northwind" })));
  return keys.map(({ token, shortToken, longTokenHash }) => ({
    secret: token,
    row: {
      hash: longTokenHash,
      algorithm: "sha256",
      encoding: "hex",
      strip: "underscore",
      prefix: `northwind_${shortToken}`,
      external_id: shortToken,
    },
  }));
}

async function betterAuthKeys(): Promise<Old[]> {
  const { betterAuth } = await import(require.resolve("better-auth"));
  const { memoryAdapter } = await import(require.resolve("better-auth/adapters/memory"));
  const { apiKey } = await import(require.resolve("@better-auth/api-key"));
  const store = { user: [], session: [], account: [], verification: [], apikey: [] } as Record<string, Record<string, unknown>[]>;
  const auth = betterAuth({
    database: memoryAdapter(store),
    secret: "a secret of the tests that is long enough",
    emailAndPassword: { enabled: true },
    plugins: [apiKey({ rateLimit: { enabled: false } })],
  });
  const { user } = await auth.api.signUpEmail({ body: { email: "ada@acme.dev", password: "a long password", name: "Ada" } });
  const made: Old[] = [];
  for (let index = 0; index < count; index++) {
    const { id, key } = await auth.api.createApiKey({ body: { name: `Key ${index}`, userId: user.id } });
    const stored = store.apikey?.find((each) => each.id === id);
    made.push({ secret: key, row: { hash: stored?.key, algorithm: "sha256", encoding: "base64url", external_id: id } });
  }
  return made;
}

const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/** Unkey's documented form: a prefix, an underscore, and 16 random bytes in base58. It stores the SHA-256 of the whole key as base64. */
const unkeyKeys = async (): Promise<Old[]> =>
  Array.from({ length: count }, () => {
    const secret = `prod_${[...randomBytes(22)].map((byte) => base58[byte % 58]).join("")}`;
    return {
      secret,
      row: { hash: createHash("sha256").update(secret).digest("base64"), algorithm: "sha256", encoding: "base64", prefix: "prod_" },
    };
  });

it("The commands of the guide try, import and verify a key", () => {
  const guide = readFileSync(join(root, "docs/team/move-your-keys-here.md"), "utf8");
  const commands = [...guide.matchAll(/```sh run\n([\s\S]*?)\n *```/g)].map(([, text = ""]) => text);
  const script = `${commands.join("\necho\n")}\n`.replace("http://localhost:8787", `http://localhost:${worker.port}`);
  const out = execFileSync("bash", ["-ec", script], {
    cwd: worker.folder,
    encoding: "utf8",
    env: { ...process.env, PORT: String(worker.port) },
  });
  const [form, tried, imported, verified] = out
    .trim()
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
  expect(form).toMatchObject({ prefix: "sk_live_" });
  expect(tried).toMatchObject({ data: [{ status: 201, id: null }], matches: true });
  expect(imported).toMatchObject({ data: [{ status: 201 }] });
  expect(verified).toMatchObject({ allowed: true, key: { name: "Production" } });
});

describe.each([
  ["prefixed-api-key", prefixedApiKeys, { prefix: "northwind_", min_length: 30, max_length: 60, alphabet: "base58" }],
  [
    "better-auth",
    betterAuthKeys,
    { prefix: "", min_length: 64, max_length: 64, alphabet: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" },
  ],
  ["Unkey", unkeyKeys, { prefix: "prod_", min_length: 20, max_length: 40, alphabet: "base58" }],
])("A thousand keys of %s", (_, makeKeys, form) => {
  it("are all admitted after the import, none with one character changed, and none after they were revoked", async () => {
    const keys = await makeKeys();
    const { id } = await operator.call("PUT", `/accounts/by-external-id/${crypto.randomUUID()}`, { name: "Acme" });
    await operator.call("PATCH", `/accounts/${id}`, { max_live_keys: 1000 });
    await operator.call("POST", "/key-forms", form);
    const ids: string[] = [];
    for (let from = 0; from < count; from += 100) {
      const rows = keys.slice(from, from + 100).map(({ row }, index) => ({ name: `Key ${from + index}`, ...row }));
      const { data } = await operator.call("POST", `/accounts/${id}/keys/import`, { keys: rows });
      expect(new Set(data.map(({ status }: { status: number }) => status))).toEqual(new Set([201]));
      ids.push(...data.map((each: { id: string }) => each.id));
    }
    const token = await operator.makeToken("verify");
    const allowedOf = async (secrets: string[], atOnce: number) => {
      let allowed = 0;
      for (let from = 0; from < secrets.length; from += atOnce) {
        const answers = await Promise.all(
          secrets.slice(from, from + atOnce).map((key) => operator.call("POST", "/verify", { key }, token)),
        );
        allowed += answers.filter((answer) => answer.allowed).length;
      }
      return allowed;
    };
    const secrets = keys.map(({ secret }) => secret);
    expect(await allowedOf(secrets, 20)).toBe(count);
    const changed = secrets.map((secret) => secret.slice(0, -1) + (secret.endsWith("a") ? "b" : "a"));
    expect(await allowedOf(changed, 20)).toBe(0);
    for (let from = 0; from < count; from += 20)
      await Promise.all(ids.slice(from, from + 20).map((keyId) => operator.call("DELETE", `/keys/${keyId}`)));
    expect(await allowedOf(secrets, 20)).toBe(0);
  });
});
