import { version } from "./version.ts";

interface Platform {
  process?: { versions?: { node?: string } };
  navigator?: { userAgent?: string };
}

/**
 * Returns the User-Agent of this client. Returns undefined in browsers. A browser sends its own User-Agent, and a custom User-Agent would
 * require a preflight request.
 */
export function userAgent(): string | undefined {
  const { process, navigator } = globalThis as Platform;
  const node = process?.versions?.node;
  const runtime = navigator?.userAgent === "Cloudflare-Workers" ? "workerd" : node && `node/${node}`;
  return runtime && `developer-overview-client/${version} (${runtime})`;
}
