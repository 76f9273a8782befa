import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { expect, it, vi } from "vitest";
import { useWorker } from "./services.ts";

// Keys in the forms of other services, with the mappings of docs/team/move-your-keys-here.md. The forms of imports.test.ts would overlap these.

const { operator } = useWorker();
const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Keys of the real package djangorestframework-api-key 2, with the hashes that it stores. */
const djangoKeys = `
import json
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "rest_framework", "rest_framework_api_key"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    USE_TZ=True,
)
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from rest_framework_api_key.models import APIKey
keys = [APIKey.objects.create_key(name=f"Key {n}") for n in range(3)]
print(json.dumps([{"secret": secret, "hash": row.hashed_key, "prefix": row.prefix, "id": row.id} for row, secret in keys]))
`;

it("Keys of djangorestframework-api-key 2 have a slow hash: the import says so, and their form is that of version 3", async () => {
  const made = JSON.parse(execFileSync("/usr/bin/python3", ["-c", djangoKeys], { encoding: "utf8" })) as {
    secret: string;
    hash: string;
    prefix: string;
  }[];
  const { id } = await operator.call("PUT", `/accounts/by-external-id/${crypto.randomUUID()}`, { name: "Acme" });
  await operator.call("POST", "/key-forms", { prefix: "", min_length: 40, max_length: 60, alphabet: "base62" });
  const keys = made.map(({ hash, prefix }) => ({ name: prefix, hash, algorithm: "sha512", prefix }));
  const refused = await operator.call("POST", `/accounts/${id}/keys/import`, { keys });
  for (const each of refused.data) {
    expect(each.status).toBe(422);
    expect(JSON.stringify(each)).toMatch(/pbkdf2|slow/i);
  }
  // Version 3 stores the SHA-512 of the same text.
  const rows = made.map(({ secret, prefix }) => ({
    name: prefix,
    hash: `sha512$$${createHash("sha512").update(secret).digest("hex")}`,
    algorithm: "sha512",
    prefix,
  }));
  const imported = await operator.call("POST", `/accounts/${id}/keys/import`, { keys: rows });
  expect(imported.data.map(({ status }: { status: number }) => status)).toEqual([201, 201, 201]);
  const token = await operator.makeToken("verify");
  for (const { secret } of made) {
    const answer = await operator.call("POST", "/verify", { key: `Api-Key ${secret}` }, token);
    expect(answer).toMatchObject({ allowed: true, account: { id } });
  }
});

const hexOf = (algorithm: string, value: string | Buffer) => createHash(algorithm).update(value).digest("hex");

// Their packages cannot be installed here. The rows follow what their documentation and their source say.
it("Keys in the forms of Laravel Sanctum, django-rest-knox 4.2 and 5, and an own table with a pepper are admitted after the import", async () => {
  const { id } = await operator.call("PUT", `/accounts/by-external-id/${crypto.randomUUID()}`, { name: "Acme" });
  for (const form of [
    { prefix: "", min_length: 64, max_length: 80, alphabet: "hex" },
    { prefix: "own_", min_length: 30, max_length: 60, alphabet: "hex" },
  ])
    await operator.call("POST", "/key-forms", form);
  const [plain, knox4, knox5] = [randomBytes(24), randomBytes(32), randomBytes(32)].map((bytes) => bytes.toString("hex")) as [
    string,
    string,
    string,
  ];
  const sanctum = [...randomBytes(40)].map((byte) => base62[byte % 62]).join("");
  const keys = [
    {
      name: "Sanctum",
      hash: hexOf("sha256", sanctum),
      algorithm: "sha256",
      encoding: "hex",
      strip: "pipe",
      prefix: "17",
      external_id: "17",
    },
    { name: "knox 4.2", hash: hexOf("sha512", Buffer.from(knox4, "hex")), algorithm: "sha512", presented: "hex" },
    { name: "knox 5", hash: hexOf("sha512", knox5), algorithm: "sha512" },
    { name: "own", hash: hexOf("sha256", `own_${plain}`), algorithm: "sha256" },
  ];
  const { data } = await operator.call("POST", `/accounts/${id}/keys/import`, { keys });
  expect(data.map(({ status }: { status: number }) => status)).toEqual([201, 201, 201, 201]);
  const token = await operator.makeToken("verify");
  for (const [key, name] of [
    [`Bearer 17|${sanctum}`, "Sanctum"],
    [`Token ${knox4}`, "knox 4.2"],
    [`Token ${knox5}`, "knox 5"],
    [`Bearer own_${plain}`, "own"],
  ])
    await vi.waitUntil(async () => (await operator.call("POST", "/verify", { key }, token)).key?.name === name, {
      timeout: 20_000,
      interval: 500,
    });
});
