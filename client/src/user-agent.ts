import { version } from "./version.ts";

interface Platform {
  process?: { versions?: { node?: string } };
  navigator?: { userAgent?: string };
}

/** Returns the User-Agent of this client; undefined in browsers, which send their own and ask in a preflight about any other. */
export function userAgent(): string | undefined {
  const { process, navigator } = globalThis as Platform;
  const node = process?.versions?.node;
  const runtime = navigator?.userAgent === "Cloudflare-Workers" ? "workerd" : node && `node/${node}`;
  return runtime && `developer-overview-client/${version} (${runtime})`;
}
