import { ofFrame } from "./frame.ts";

// A reader sends requests as one of their keys. The page gets another secret of the key for that, which is valid for ten minutes. It is kept only in memory.

/** A secret ends this long before its time, in milliseconds, so that a request with it still arrives. */
const earlyMs = 20_000;

let lent: { keyId: string; secretKey: string; until: number } | null = null;

/** The field with the key, if the page has one. */
export const sendAs = document.querySelector<HTMLSelectElement>("[data-send-as]");

/** Returns a secret of the chosen key, or null if there is none. */
export async function lentSecret(): Promise<string | null> {
  const keyId = sendAs?.value;
  if (!keyId) return null;
  if (lent?.keyId === keyId && Date.now() < lent.until) return lent.secretKey;
  const path = `/keys/${keyId}/send-as`;
  const sent = { method: "POST", headers: { ...ofFrame, Accept: "application/json" }, body: new URLSearchParams() };
  const response = await fetch(path, sent).catch(() => Response.error());
  const line = document.querySelector<HTMLElement>("[data-confirm]");
  if (line) line.hidden = response.status !== 403;
  line?.querySelector("button")?.setAttribute("formaction", path);
  if (response.status !== 200) return null;
  const { secret_key: secretKey, expires_in: seconds } = (await response.json()) as { secret_key: string; expires_in: number };
  lent = { keyId, secretKey, until: Date.now() + seconds * 1000 - earlyMs };
  return secretKey;
}

/** Forgets the lent secret, for example after it has ended with a rotation of its key. */
export function forgetLent(): void {
  lent = null;
}
