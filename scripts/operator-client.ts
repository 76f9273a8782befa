import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isLoopback } from "../src/lib/net/loopback.ts";
import type { Deployment } from "./deploy/deployment.ts";
import { CommandError } from "./exit-codes.ts";
import { localSecrets } from "./local-secrets.ts";
import { root } from "./root.ts";
import { settingsFile } from "./settings/files.ts";

// A client for the operator's API of a local or deployed Worker.

const maxCallMs = 90_000;
/** The file in which `npm run deploy` stores the operator tokens of deployed Workers. Each line has the form `https://origin=token`. */
export const tokensFile = join(root, ".operator-tokens");

export interface OperatorResponse {
  // biome-ignore lint/suspicious/noExplicitAny: the operator's API has no types outside of the Worker
  body: any;
  text: string;
  headers: Headers;
}

/** The Worker that a command calls. */
export interface OperatorClient {
  origin: string;
  /** Whether the client calls the local Worker, which `npm start` runs. The secrets of the local Worker are in .dev.vars. */
  isLocal: boolean;
  /** The deployment that the client calls, if it was named by its environment. */
  deployment: Deployment | null;
  call(method: string, path: string, body?: unknown): Promise<OperatorResponse>;
  /** Returns the text of `/metrics`. A token with the scope `metrics:read` is enough. */
  metrics(): Promise<string>;
}

/** How a command names the Worker that it calls. */
export interface Target {
  /** The address of the Worker. */
  remote?: string | undefined;
  /** The environment of the Worker, for example `staging`. */
  env?: string | undefined;
}

/**
 * Returns a client for the Worker that a command names, by its environment or by its address. The default is the local Worker. Throws
 * `CommandError` if the environment and the address name different Workers, or if the environment has no address yet.
 */
export async function connectToTarget({ remote, env }: Target): Promise<OperatorClient> {
  if (env === undefined) return connectToOperator(remote);
  const deployment = await (await import("./deploy/deployment.ts")).readDeployment(env);
  const { origin, origins, worker } = deployment;
  if (origin === null)
    throw new CommandError("misuse", `api.public_origin is not set in ${settingsFile(env)}, so nobody knows where ${worker} is.`);
  if (remote !== undefined && !origins.includes(originOf(remote)))
    throw new CommandError(
      "refused",
      `Nothing is done. --env ${env} is ${worker} at ${origins.join(", ")}, but --remote or OPERATOR_REMOTE is ${originOf(remote)}.`,
    );
  return { ...connectToOperator(remote ?? origin), deployment };
}

/**
 * Returns a client for the Worker at `remote`. The default is the local Worker. With `isKept`, ignores OPERATOR_TOKEN and uses the token
 * that is stored on this machine. Throws `CommandError` if there is no token for the Worker.
 */
export function connectToOperator(remote: string | undefined, { isKept = false } = {}): OperatorClient {
  const origin = originOf(remote);
  const given = isKept ? undefined : process.env.OPERATOR_TOKEN;
  const token = given || tokenFor(origin);
  if (!token)
    throw new CommandError(
      "misuse",
      remote === undefined
        ? "There is no operator token yet. `npm start` creates one."
        : `There is no token for ${origin}. Set OPERATOR_TOKEN to a token whose SHA-256 is in the Worker's secret OPERATOR_TOKENS.`,
    );
  const kept = { token, place: given ? "the variable OPERATOR_TOKEN" : keptToken(origin) ? ".operator-tokens" : ".dev.vars" };
  return {
    origin,
    isLocal: remote === undefined,
    deployment: null,
    call: (method, path, body) => call(`${origin}/team/v1${path}`, kept, method, body),
    metrics: async () => (await call(`${origin}/metrics`, kept, "GET")).text,
  };
}

function originOf(remote: string | undefined): string {
  if (remote === undefined) return `http://localhost:${process.env.PORT || 8787}`;
  const url = URL.canParse(remote) ? new URL(remote) : null;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new CommandError("misuse", `--remote and OPERATOR_REMOTE take the address of a Worker, not "${remote}".`);
  // Without TLS, anyone on the network path could read the token.
  if (url.protocol === "http:" && !isLoopback(url.hostname))
    throw new CommandError("misuse", `--remote and OPERATOR_REMOTE take https://, not ${url.origin}.`);
  return url.origin;
}

const tokenFor = (origin: string): string | undefined =>
  keptToken(origin) ?? (isLoopback(new URL(origin).hostname) ? localSecrets().OPERATOR_TOKEN : undefined);

/** Returns the token of a deployed Worker that .operator-tokens has, or undefined. */
export function keptToken(origin: string): string | undefined {
  const lines = existsSync(tokensFile) ? readFileSync(tokensFile, "utf8").split("\n") : [];
  return lines.findLast((each) => each.startsWith(`${origin}=`))?.slice(origin.length + 1);
}

/** Stores the token of a deployed Worker in .operator-tokens, where `connectToOperator` finds the token. */
export function keepToken(origin: string, token: string): void {
  const lines = existsSync(tokensFile) ? readFileSync(tokensFile, "utf8").split("\n") : [];
  const others = lines.filter((line) => line !== "" && !line.startsWith(`${origin}=`));
  writeFileSync(tokensFile, `${[...others, `${origin}=${token}`].join("\n")}\n`, { mode: 0o600 });
  // `writeFileSync` does not change the mode of an existing file, so set the mode here.
  chmodSync(tokensFile, 0o600);
}

/** A token, and where it comes from. */
interface KeptToken {
  token: string;
  place: string;
}

async function call(url: string, { token, place }: KeptToken, method: string, body?: unknown): Promise<OperatorResponse> {
  const { origin } = new URL(url);
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, {
      method,
      redirect: "manual",
      headers: { Authorization: `Bearer ${token}`, ...(body !== undefined && { "Content-Type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(maxCallMs),
    });
    text = await response.text();
  } catch (error) {
    const cause = (error as Error).cause as { code?: string; message?: string } | undefined;
    const why = cause?.code ?? cause?.message ?? (error as Error).message;
    const hint = isLoopback(new URL(origin).hostname) ? " If `npm start` runs on another port, set PORT here too." : "";
    throw new CommandError("unreachable", `Nothing responds at ${origin}: ${why}.${hint}`);
  }
  const { status, headers } = response;
  const isJson = (headers.get("Content-Type") ?? "").includes("json") && !(headers.get("Content-Type") ?? "").includes("ndjson");
  const answered = isJson ? JSON.parse(text) : null;
  if (status >= 200 && status < 300) return { body: answered, text, headers };
  const detail = [
    answered?.detail ?? `${origin} responded with ${status}.`,
    ...(answered?.errors ?? []).map(
      ({ pointer, parameter, detail: each }: { pointer?: string; parameter?: string; detail: string }) =>
        `${pointer ?? parameter}: ${each}`,
    ),
  ].join(" ");
  const requestId = answered?.request_id ? ` (${answered.request_id})` : "";
  if (status >= 300 && status < 400)
    throw new CommandError("refused", `${origin} redirects requests. Something is in front of the Worker, perhaps Cloudflare Access.`);
  if (status === 401) throw new CommandError("refused", `${origin} refuses the token that is in ${place}. ${detail}`);
  if (status === 403 || status === 409) throw new CommandError("refused", detail);
  if (status === 400 || status === 422) throw new CommandError("misuse", detail);
  if (status === 502 || status === 504 || (status === 530 && !answered))
    throw new CommandError("unreachable", `${origin} responded with ${status}.`);
  throw new CommandError("failed", `${detail}${status >= 500 ? requestId : ""}`, { isTransient: status >= 500 });
}
