import { createExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { createAccount } from "../../../src/accounts/account.ts";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { firstStore } from "../../../src/activity/databases.ts";
import { signingSecretsIn } from "../../../src/credentials/key-format.ts";
import { connect } from "../../../src/db/client.ts";
import { createKey, type NewKey } from "../../../src/keys/create-key.ts";
import { scopes } from "../../../src/keys/scopes.ts";
import { foldAccount } from "../../../src/usage/refresh-roll-ups.ts";
import { commitTo } from "../../../src/webhooks/outbox.ts";
import { invocation } from "./counted.ts";
import { checkAnswer } from "./documented.ts";

export const origin = "http://localhost";
export const db = connect(env.DB);
/** The activity database that accounts of the tests have, unless they ask for another. */
export const activity = connect(env.ACTIVITY_0);

/** What verbs take that read the log and figures: those are brought up to date at once, even a moment after the last time. */
export const readingLog = (accountId: string, now = Date.now()) => ({
  db,
  activity,
  actor: operatorOn(accountId),
  now,
  refresh: async (id: string) => void (await foldAccount(env.ACTIVITY_0, id)),
});
export const signing = signingSecretsIn(env);

export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: what a stranger's client sees has no type
  body: any;
  text: string;
}

/** One request, as it would come over the network; the body of the answer is read and, where it is JSON, parsed. What an operation answers is held to the document. */
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
  const answer = await answerOf(await exports.default.fetch(request));
  checkAnswer(method, path, answer);
  return answer;
}

/** What a client sees of an answer. */
export async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const isJson = /[/+]json\b/.test(response.headers.get("Content-Type") ?? "") && text !== "";
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : null, text };
}

export interface Call {
  key?: string;
  body?: unknown;
  [header: string]: unknown;
}

export interface Tenant {
  accountId: string;
  keyId: string;
  /** A secret key with every scope, unless it was asked for another. */
  key: string;
}

/** A new account with a key of its own, made by the code that the commands use. */
export async function makeTenant(input: Partial<NewKey> = {}, activityStore = firstStore): Promise<Tenant> {
  const account = await createAccount({ db, now: Date.now() }, { name: "Tenant", email: "tenant@example.com", activityStore });
  return { accountId: account.id, ...(await makeKey(account.id, input)) };
}

/** A further key of an account, made by the operator. */
export async function makeKey(accountId: string, input: Partial<NewKey> = {}): Promise<{ keyId: string; key: string }> {
  const making = { db, now: Date.now(), actor: operatorOn(accountId), commit: commitTo({ db }), signing: signing[0] };
  const made = await invocation("making a key", () => createKey(making, { name: "Test key", scopes: [...scopes], ...input }));
  return { keyId: made.key.id, key: made.secretKey };
}

/** Runs the cron job, as of `at`. */
export async function cron(at = Date.now()): Promise<void> {
  const { default: worker } = await import("./main.ts");
  await worker.scheduled({ scheduledTime: at, cron: "* * * * *", noRetry() {} }, env, createExecutionContext());
}

/** Repeats a look until it shows what is wanted, for two seconds: as long as the log may take. */
export async function within2s<Seen>(look: () => Promise<Seen>, isWanted: (seen: Seen) => boolean): Promise<Seen> {
  const until = Date.now() + 2000;
  for (;;) {
    const seen = await look();
    if (isWanted(seen) || Date.now() > until) return seen;
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}
