import { request } from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, it, vi } from "vitest";
import { type Service, useWorker } from "../services.ts";
import { removeGoProgram, startClient } from "./services.ts";

// What a started Worker stores about odd requests and WebSockets.

const { worker, operator } = useWorker();
afterAll(() => removeGoProgram());

/** Opens a WebSocket, closes it, and returns the status. */
const openSocket = ({ url }: Service, key: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const headers = {
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
      Authorization: `Bearer ${key}`,
    };
    request(`${url}/socket`, { headers, agent: false })
      .once("upgrade", async ({ statusCode = 0 }, socket) => {
        await sleep(300);
        // A masked frame that closes the WebSocket.
        socket.end(Buffer.from([0x88, 0x80, 0, 0, 0, 0]));
        resolve(statusCode);
      })
      .once("response", ({ statusCode = 0 }) => resolve(statusCode))
      .once("error", reject)
      .end();
  });

describe.each(["node:http", "ASGI", "WSGI", "Go"])("With the client for %s, a started Worker", (name) => {
  it("decides and logs odd requests, and logs a WebSocket as 101", async () => {
    const account = await operator.makeAccount({ limit: 100 });
    const token = await operator.makeToken("verify");
    const service = await startClient(name, "deny", { OVERVIEW_URL: `http://localhost:${worker.port}`, SERVICE_TOKEN: token });
    const statusOf = async (path: string, headers: Record<string, string>) => (await fetch(service.url + path, { headers })).status;
    const withKey = { Authorization: `Bearer ${account.key}` };
    expect(await statusOf(`/${"%E2%82%AC".repeat(500)}`, withKey)).toBe(200);
    expect(await statusOf("/ip", { ...withKey, "X-Test-IP": "unknown" })).toBe(200);
    expect(await statusOf("/ip", { ...withKey, "X-Test-IP": "[2001:db8::1]:51234" })).toBe(200);
    expect(await statusOf("/both", { ...withKey, "X-API-Key": account.key })).toBe(200);
    expect(await statusOf("/long", { Authorization: `Bearer ${"a".repeat(4200)}` })).toBe(401);
    const socket = name === "WSGI" ? 0 : await openSocket(service, account.key);
    expect(socket).toBe(name === "WSGI" ? 0 : 101);
    const status = await new Promise<string>((resolve) => {
      const raw = connect(Number(new URL(service.url).port), "127.0.0.1");
      raw.once("data", (data) => resolve(data.toString()));
      raw.write(`${"X".repeat(40)} / HTTP/1.1\r\nHost: api\r\nConnection: close\r\nAuthorization: Bearer ${account.key}\r\n\r\n`);
    });
    expect(status).not.toContain(" 503 ");
    const wanted = [200, 200, 200, 200, ...(name === "WSGI" ? [] : [101])];
    await vi.waitUntil(
      async () => {
        const statuses = (await account.admitted()).map((entry: { status: number | null }) => entry.status);
        return wanted.every((each) => statuses.filter((one: number) => one === each).length >= wanted.filter((one) => one === each).length);
      },
      { timeout: 15_000, interval: 200 },
    );
    await service.stop();
  });

  it("admits no request over the limit of a key on 800 connections, and none without a key meanwhile", async () => {
    const account = await operator.makeAccount({ limit: 100 });
    const token = await operator.makeToken("verify");
    const service = await startClient(name, "known", { OVERVIEW_URL: `http://localhost:${worker.port}`, SERVICE_TOKEN: token });
    const statusOf = async (headers: Record<string, string>) =>
      (await fetch(`${service.url}/admin`, { headers }).catch(() => ({ status: 0 }))).status;
    const flood = Promise.all(Array.from({ length: 800 }, () => statusOf({ Authorization: `Bearer ${account.key}` })));
    const anonymous = await Promise.all(Array.from({ length: 20 }, () => statusOf({})));
    const admitted = (await flood).filter((status) => status === 200).length;
    expect(admitted).toBeGreaterThan(0);
    expect(admitted).toBeLessThanOrEqual(100);
    expect(anonymous.filter((status) => status !== 401 && status !== 503)).toEqual([]);
    await service.stop();
  });
});
