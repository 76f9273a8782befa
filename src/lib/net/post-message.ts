import { secondMs } from "../time/clock.ts";

const timeoutMs = 10 * secondMs;

/**
 * Posts a message of the service itself to a URL of the team. `receiver`: how errors call the receiver. Throws if it does not respond with a 2xx
 * status. The errors never contain the URL, which may be a secret.
 */
export async function postMessage(url: string | URL, body: string, headers: Record<string, string>, receiver: string): Promise<void> {
  const sent = fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body,
    redirect: "manual",
    signal: AbortSignal.timeout(timeoutMs),
  });
  const response = await sent.catch((error: unknown) => {
    const isLate = error instanceof Error && error.name === "TimeoutError";
    throw new Error(isLate ? `${receiver} did not respond within ${timeoutMs / secondMs} s` : `${receiver} cannot be reached`);
  });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`${receiver} responded with ${response.status}`);
}
