import { ofFrame } from "./frame.ts";

// A reader sends requests as one of their keys. The page gets a temporary secret of the key, which is valid for ten minutes and kept only in memory.

/** A secret ends this long before its time, in milliseconds, so that a request with it still arrives. */
const earlyMs = 20_000;

let temporary: { keyId: string; secretKey: string; until: number } | null = null;

/** The field with the key, if the page has one. */
export const sendAs = document.querySelector<HTMLSelectElement>("[data-send-as]");

/** Returns a secret of the chosen key, or null if there is none. */
export async function temporarySecret(): Promise<string | null> {
  const keyId = sendAs?.value;
  if (!keyId) return null;
  if (temporary?.keyId === keyId && Date.now() < temporary.until) return temporary.secretKey;
  const path = `/keys/${keyId}/send-as`;
  const sent = { method: "POST", headers: { ...ofFrame, Accept: "application/json" }, body: new URLSearchParams() };
  const response = await fetch(path, sent).catch(() => Response.error());
  const line = document.querySelector<HTMLElement>("[data-confirm]");
  if (line) line.hidden = response.status !== 403;
  line?.querySelector("button")?.setAttribute("formaction", path);
  if (response.status !== 200) return null;
  const { secret_key: secretKey, expires_in: seconds } = (await response.json()) as { secret_key: string; expires_in: number };
  temporary = { keyId, secretKey, until: Date.now() + seconds * 1000 - earlyMs };
  return secretKey;
}

/** Forgets the temporary secret, for example after it has ended with a rotation of its key. */
export function forgetTemporarySecret(): void {
  temporary = null;
}
