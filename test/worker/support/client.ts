import { createExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { vi } from "vitest";
import { insertAccount, newAccount } from "../../../src/accounts/account.ts";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { createApp } from "../../../src/app.ts";
import { signingSecretsIn } from "../../../src/credentials/key-format.ts";
import { connect } from "../../../src/db/client.ts";
import { createKey, type NewKey } from "../../../src/keys/create-key.ts";
import { scopes } from "../../../src/keys/scopes.ts";
import { firstLogWriter } from "../../../src/log/databases.ts";
import { logOf } from "../../../src/log/writers.ts";
import { commitTo } from "../../../src/outbox/outbox.ts";
import { invocation } from "./counted.ts";
import { checkResponse } from "./documented.ts";

export const origin = "http://localhost";
export const db = connect(env.DB);
/** The activity database that the tests' accounts use by default. */
export const activity = connect(env.ACTIVITY_0);

/** Returns a context for functions that read the log or the usage. */
export const readingLog = (accountId: string, now = Date.now()) => ({
  db,
  actor: operatorOn(accountId),
  now,
  ...logOf(env, firstLogWriter),
});
export const signing = signingSecretsIn(env);

/** A response whose JSON body has no static type. */
export interface Answer {
  status: number;
  headers: Headers;
  /** The parsed body of a JSON response, or null for any other response. */
  // biome-ignore lint/suspicious/noExplicitAny: the body can be any JSON value
  body: any;
  text: string;
}

/**
 * Sends a request to the Worker and reads the response. Fails if the request calls an operation of the OpenAPI document and the operation
 * does not document the response.
 */
export async function call(method: string, path: string, { key, body, ...headers }: Call = {}): Promise<Answer> {
  const sent = new Headers(Object.entries(headers).map(([name, value]) => [name, String(value)]));
  if (key) sent.set("Authorization", `Bearer ${key}`);
  const isText = typeof body === "string" || body instanceof Uint8Array || body instanceof ReadableStream;
  if (body !== undefined && !sent.has("Content-Type")) sent.set("Content-Type", "application/json");
  const payload = body === undefined ? undefined : isText ? (body as BodyInit) : JSON.stringify(body);
  const request = new Request(origin + path, {
    method,
    headers: sent,
    redirect: "manual",
    ...(payload !== undefined && { body: payload }),
  });
  const response = await answerOf(await exports.default.fetch(request));
  checkResponse(method, path, response);
  return response;
}

const app = createApp({ isLocal: true });

/** Sends a request to a Worker with a key. `bindings` replaces some bindings of this Worker. */
export async function callWith(
  bindings: Partial<Env>,
  method: string,
  path: string,
  key: string,
  body?: unknown,
  { headers = {}, ctx = createExecutionContext() }: { headers?: Record<string, string>; ctx?: ExecutionContext } = {},
): Promise<Answer> {
  const init = {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", "Sec-Fetch-Site": "none", ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  };
  return answerOf(await app.fetch(new Request(origin + path, init), { ...env, ...bindings }, ctx));
}

/** Reads the body of a response, and parses it if it is JSON. */
export async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const isJson = /[/+]json\b/.test(response.headers.get("Content-Type") ?? "") && text !== "";
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : null, text };
}

/** The options of `call`. All properties other than `key` and `body` are headers. */
export interface Call {
  key?: string;
  /** `call` sends strings, bytes and streams unchanged, and all other values as JSON. */
  body?: unknown;
  [header: string]: unknown;
}

export interface Tenant {
  accountId: string;
  keyId: string;
  /** The secret key of the API key `keyId`. */
  key: string;
}

/**
 * Creates an account with one key. Calls the same code as the operator commands. The key has every scope unless `input` specifies scopes.
 */
export async function makeTenant(input: Partial<NewKey> = {}, logWriter = firstLogWriter): Promise<Tenant> {
  const account = newAccount(Date.now(), { name: "Tenant", email: "tenant@example.com", logWriter });
  await insertAccount(db, account);
  return { accountId: account.id, ...(await makeKey(account.id, input)) };
}

/** Creates a key for an account, with the operator as the actor. The key has every scope unless `input` specifies scopes. */
export async function makeKey(accountId: string, input: Partial<NewKey> = {}): Promise<{ keyId: string; key: string }> {
  const context = { db, now: Date.now(), actor: operatorOn(accountId), commit: commitTo({ db }), signing: () => signing[0] };
  const created = await invocation("createKey", () => createKey(context, { name: "Test key", scopes: [...scopes], ...input }));
  return { keyId: created.key.id, key: created.secretKey };
}

/** Runs the scheduled jobs as if the time were `at`, in milliseconds since the epoch. */
export async function cron(at = Date.now()): Promise<void> {
  const { default: worker } = await import("./main.ts");
  await worker.scheduled({ scheduledTime: at, cron: "* * * * *", noRetry() {} }, env, createExecutionContext());
}

/**
 * Reads a value repeatedly until the value meets a condition. Returns the value. Throws after two seconds. The log and the usage are at
 * most two seconds late.
 */
export const within2s = <Value>(read: () => Promise<Value>, meetsCondition: (value: Value) => boolean): Promise<Value> =>
  vi.waitFor(
    async () => {
      const value = await read();
      if (!meetsCondition(value)) throw new Error(`The value never met the condition: ${JSON.stringify(value)?.slice(0, 2000)}`);
      return value;
    },
    { timeout: 2000, interval: 40 },
  );
