import { type Browser, chromium } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import { type RunningWorker, startWorker } from "../node/worker.ts";

const quiet = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Returns the options for the system's Chromium (Debian: `apt-get install chromium`). It resolves the host names in `hosts` to this machine. */
export const chromiumOptions = (hosts: readonly string[] = []) => ({
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

export const startChromium = (hosts?: readonly string[]): Promise<Browser> => chromium.launch(chromiumOptions(hosts));

/** The part of a browser that the tests use. */
export type Pages = Pick<Browser, "newContext" | "newPage">;

/**
 * Starts a Worker and Chromium before the tests of a file, and stops both after the tests. The members of the returned objects exist from then on, so use
 * them only in tests and in later hooks.
 */
export function useBrowser(
  options?: Parameters<typeof startWorker>[0],
  hosts?: readonly string[],
): { worker: RunningWorker; browser: Pages } {
  const [worker, browser] = [{} as RunningWorker, {} as Pages];
  let started: Browser | undefined;
  beforeAll(async () => {
    const [newWorker, newBrowser] = await Promise.all([startWorker(options), startChromium(hosts)]);
    started = newBrowser;
    Object.assign(worker, newWorker);
    Object.assign(browser, { newContext: newBrowser.newContext.bind(newBrowser), newPage: newBrowser.newPage.bind(newBrowser) });
  });
  afterAll(() => Promise.all([started?.close(), worker.stop?.()]));
  return { worker, browser };
}
