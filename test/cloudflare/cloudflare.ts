import { once } from "node:events";
import { type Account, newAccount } from "./account.ts";
import { Api } from "./api.ts";
import { Runtime } from "./runtime.ts";

// Emulates one Cloudflare account on loopback: the API that wrangler calls, and the edge that serves what was deployed. Uploaded versions run
// in workerd. It proves what wrangler does, not what Cloudflare does.

export interface Cloudflare {
  account: Account;
  api: Api;
  runtime: Runtime;
  /** The port at which the custom domains respond, for example `http://localhost:PORT`. */
  port: number;
  /** The environment variables with which wrangler calls this account. */
  variables(): Record<string, string>;
  stop(): Promise<void>;
}

export async function startCloudflare(): Promise<Cloudflare> {
  const account = newAccount();
  const runtime = new Runtime(account);
  const api = new Api(account, runtime);
  api.server.listen(0, "127.0.0.1");
  runtime.edge.listen(0, "localhost");
  await Promise.all([once(api.server, "listening"), once(runtime.edge, "listening")]);
  return {
    account,
    api,
    runtime,
    port: runtime.port,
    variables: () => ({
      CLOUDFLARE_API_BASE_URL: api.url,
      CLOUDFLARE_API_TOKEN: "of-the-team",
      CLOUDFLARE_ACCOUNT_ID: account.id,
      WRANGLER_SEND_METRICS: "false",
      WRANGLER_SEND_ERROR_REPORTS: "false",
    }),
    stop: async () => {
      api.server.closeAllConnections();
      api.server.close();
      await runtime.stop();
    },
  };
}
