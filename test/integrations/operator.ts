import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { RunningWorker } from "../node/worker.ts";

/** Returns functions that call the team API of a started Worker with its operator token. */
export function operatorOf(worker: RunningWorker) {
  const origin = `http://localhost:${worker.port}`;
  const token = /^OPERATOR_TOKEN="?([^"\n]+)/m.exec(readFileSync(join(worker.folder, ".dev.vars"), "utf8"))?.[1] ?? "";
  // biome-ignore lint/suspicious/noExplicitAny: the body can be any JSON value
  const call = async (method: string, path: string, body?: unknown, as = token): Promise<any> => {
    const response = await fetch(`${origin}/team/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${as}`, "Content-Type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  };
  return {
    call,
    token,
    makeToken: async (...scopes: string[]): Promise<string> => (await call("POST", "/tokens", { name: "Test", scopes })).token,
    /** Creates an account with one key for its requests. A second key reads the log, so the first one loses nothing of its limit. */
    makeAccount: async ({ limit }: { limit: number }) => {
      const { id } = await call("PUT", `/accounts/by-external-id/${crypto.randomUUID()}`, { name: "Acme" });
      const key = await call("POST", `/accounts/${id}/keys`, { name: "Requests", scopes: [], hourly_limit: limit });
      const reader = await call("POST", `/accounts/${id}/keys`, { name: "Reader", scopes: ["activity:read", "usage:read"] });
      const read = async (path: string) => {
        const response = await fetch(`${origin}/api/v1${path}`, { headers: { Authorization: `Bearer ${reader.secret_key}` } });
        // biome-ignore lint/suspicious/noExplicitAny: the body can be any JSON value
        return (await response.json()) as any;
      };
      return {
        id: id as string,
        key: key.secret_key as string,
        keyId: key.id as string,
        /** Returns the requests of the first key that were admitted, newest first. */
        admitted: async () =>
          (await read(`/activity?limit=100&key_id=${key.id}`)).data.filter(({ counted }: { counted: boolean }) => counted),
        usage: () => read(`/usage?key_id=${key.id}&window=24h`),
      };
    },
  };
}
