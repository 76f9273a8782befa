import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkProxy } from "../../scripts/operator/check-proxy.ts";
import { probes } from "../../scripts/operator/proxy-probes.ts";
import { run } from "../node/project.ts";
import { type RunningWorker, startWorker } from "../node/worker.ts";
import { operatorOf } from "./operator.ts";
import { type ProxyName, recipes, startOrigin, startProxy } from "./recipes.ts";
import { type Service, stopAll } from "./services.ts";

// `operator check-proxy` against the recipes, and against configurations that were once recommended or that a team could write.

let worker: RunningWorker;
let operator: ReturnType<typeof operatorOf>;
let upstream: Awaited<ReturnType<typeof startOrigin>>;
let token: string;
const servers: Server[] = [];

beforeAll(async () => {
  worker = await startWorker();
  operator = operatorOf(worker);
  upstream = await startOrigin();
  token = await operator.makeToken("verify");
});
afterAll(async () => {
  await stopAll();
  for (const server of servers) server.close();
  upstream?.close();
  await worker?.stop();
});

const start = (name: ProxyName, service: string, text?: string, workerPort = worker.port): Promise<Service> =>
  startProxy(name, { workerPort, originPort: upstream.port, service }, text);

async function faultsBehind(proxy: Service): Promise<{ sent: number; faults: string[]; passes: string[] }> {
  const { key } = await operator.makeAccount({ limit: 5000 });
  const { sent, found, passes } = await checkProxy(new URL(`${proxy.url}/check-proxy`), key);
  return { sent, passes, faults: found.map(({ probe, credential, fault }) => `${probe} | ${credential} | ${fault}`) };
}

/** The recipe for Caddy before its options stood behind the service token. */
const formerCaddy = `:4081 {
	forward_auth 127.0.0.1:8787 {
		uri /operator/api/verify/forward
		header_up X-Service-Token SERVICE_TOKEN
		header_up X-Real-IP {remote_host}
		copy_headers X-Verified-Account X-Verified-External-Id X-Verified-Key X-Verified-Scopes X-Verified-Receipt
	}
	reverse_proxy 127.0.0.1:4000
}
`;

describe("operator check-proxy", () => {
  it.each(Object.keys(recipes) as ProxyName[])("finds nothing behind the recipe for %s, with any of its options", async (name) => {
    for (const [options, passes] of [
      ["", ["a good key"]],
      ["; missing=pass", ["a good key", "no key"]],
    ] as const) {
      const proxy = await start(name, `${token}${options}`);
      expect(await faultsBehind(proxy)).toMatchObject({ faults: [], passes });
      await proxy.stop();
    }
  });

  it("finds an identity that a client removes or adds, behind the former recipe for Caddy", async () => {
    const proxy = await start("Caddy", token, formerCaddy);
    const { faults, sent } = await faultsBehind(proxy);
    expect(faults).toContain("the header Connection: X-Verified-Account | a good key | x-verified-account is missing");
    expect(faults.some((fault) => /^the header X_Verified_Account: acc_forged \| a good key \| .*acc_forged/.test(fault))).toBe(true);
    // The local runtime answered for another path, and Caddy took every 2xx for a decision.
    expect(faults).toContain("the header MF-Original-URL: http://x/health | no key | the request reaches your API");
    expect(faults.some((fault) => /^the header X~Verified~Account: acc_forged \| a good key \| .*acc_forged/.test(fault))).toBe(true);
    expect(sent).toBeLessThan(4 * probes.length);
    await proxy.stop();
  });

  /** Starts a service that decides by what the client sends, as the Worker once did. `allows`: whether a request may pass. */
  async function startDeciding(allows: (url: URL, headers: Record<string, unknown>) => boolean): Promise<number> {
    const { id, keyId } = await operator.makeAccount({ limit: 10 });
    const server = createServer((request, response) => {
      const hasKey = /^Bearer dvo_(?!0)/.test(request.headers.authorization ?? "");
      const isAllowed = hasKey || allows(new URL(request.url ?? "/", "http://worker"), request.headers);
      const [account, key, scopes] = hasKey ? [id, keyId, "orders:read"] : ["-", "-", "-"];
      response.writeHead(isAllowed ? 200 : 401, {
        "X-Verified-Account": account,
        "X-Verified-External-Id": "-",
        "X-Verified-Key": key,
        "X-Verified-Scopes": scopes,
        "X-Verified-Receipt": "-",
      });
      response.end();
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  }

  it("finds that the query of a client chooses the options", async () => {
    const port = await startDeciding((url) => url.searchParams.get("missing") === "pass");
    const proxy = await start("Caddy", token, formerCaddy, port);
    const { faults } = await faultsBehind(proxy);
    expect(faults).toContain("the query ?missing=pass | no key | the request reaches your API");
    await proxy.stop();
  });

  it("finds that a header of a client chooses the options, behind an address with a slash at its end", async () => {
    const port = await startDeciding((url, headers) => url.pathname.endsWith("/") && headers["x-verify-options"] === "missing=pass");
    const proxy = await start("Caddy", token, formerCaddy.replace("verify/forward", "verify/forward/"), port);
    const { faults } = await faultsBehind(proxy);
    expect(faults).toContain("the header X-Verify-Options: missing=pass | no key | the request reaches your API");
    await proxy.stop();
  });

  it("prints what it found, and ends with 1 if there is a fault, with 0 if there is none, and with 2 for a URL that is none", async () => {
    const { key } = await operator.makeAccount({ limit: 5000 });
    const [good, bad] = [await start("Caddy", token), await start("Caddy", token, formerCaddy)];
    const command = (url: string) =>
      run(process.execPath, ["scripts/operator.ts", "check-proxy", url, "--key", key], { cwd: worker.folder, env: process.env });
    const fine = await command(`${good.url}/check-proxy`);
    expect([fine.code, fine.out]).toEqual([0, expect.stringContaining("Nobody passes unasked.")]);
    const found = await command(`${bad.url}/check-proxy`);
    expect([found.code, found.out]).toEqual([1, expect.stringContaining("X_Verified_Account")]);
    expect((await command("no url")).code).toBe(2);
    expect((await command(`http://127.0.0.1:${worker.port}/health`)).code).toBe(1);
    await Promise.all([good.stop(), bad.stop()]);
  });
});
