import { isLoopback } from "../lib/net/loopback.ts";
import { settings } from "../lib/settings.ts";

/**
 * Returns whether a portal link may lead back to a URL: with `https:`, at one of the team's origins. A local build also accepts any loopback
 * host, so that a team can try links on its own machine.
 */
export function isPortalUrl(text: string, isLocal: boolean): boolean {
  if (!URL.canParse(text)) return false;
  const { origin, protocol, hostname, username, password } = new URL(text);
  if (username !== "" || password !== "" || !/^https?:$/.test(protocol)) return false;
  // The origin becomes a part of a Content-Security-Policy. A host can contain `;`, which would end the directive.
  if (!/^https?:\/\/[\w.:[\]-]+$/.test(origin)) return false;
  if (isLocal && isLoopback(hostname)) return true;
  return protocol === "https:" && settings.portal.hosts.includes(origin);
}

/** Returns the origins that may frame a session that leads back to `returnUrl`: those of the team. */
export const framingHosts = (returnUrl: string, isLocal: boolean): string[] => [
  ...new Set([
    ...settings.portal.hosts.filter((host) => isLocal || host.startsWith("https:")),
    ...(isPortalUrl(returnUrl, isLocal) ? [new URL(returnUrl).origin] : []),
  ]),
];
