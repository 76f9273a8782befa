import { type Browser, chromium } from "playwright-core";

const quiet = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Starts the system's Chromium (Debian: `apt-get install chromium`). Chromium resolves the host names in `hosts` to this machine. */
export const startChromium = (hosts: readonly string[] = []): Promise<Browser> =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      // Disables Chromium's protection of local servers against other sites. The overview must be safe without this protection.
      "--disable-features=LocalNetworkAccessChecks,PrivateNetworkAccessRespectPreflightResults",
      ...quiet,
      `--host-resolver-rules=${hosts.map((host) => `MAP ${host} 127.0.0.1`).join(", ")}`,
    ],
  });
