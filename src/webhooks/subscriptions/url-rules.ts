import ipaddr from "ipaddr.js";
import { isLoopback } from "../../lib/net/loopback.ts";
import { publicOrigins } from "../../lib/net/public-origins.ts";

// The rules for webhook URLs. A URL is parsed once, as `fetch` would parse it, and the rules apply to the parsed URL. The rules are checked
// when a URL is saved and again at each attempt. The check does not resolve host names. On the platform, `fetch` can reach only public
// addresses.

export const maxUrl = 2048;

/**
 * Domain names that never lead to a public server. The first are special-use names (RFC 6761 and its registry). The others are names of private networks
 * (RFC 6762, appendix G), and names that ICANN does not delegate.
 */
const specialDomains = [
  ...["alt", "arpa", "example", "invalid", "local", "localhost", "onion", "test"],
  ...["corp", "home", "internal", "intranet", "lan", "localdomain", "mail", "private"],
];

export interface UrlContext {
  /** The host names of this deployment, in lower case and without a port. */
  ownHosts: readonly string[];
  /** True if http URLs and loopback hosts are allowed. They are allowed only for development on a laptop. */
  isLocal: boolean;
}

/** Returns the host names of `PUBLIC_ORIGIN`. Throws if an origin is not a valid URL. */
export const ownHosts = (publicOrigin: string): string[] => publicOrigins(publicOrigin).map((origin) => new URL(origin).hostname);

/**
 * Returns the form in which requests use a valid webhook URL, and its host with the port. Two URLs with the same target lead to the same place: a
 * fragment is never sent, and letter case and default ports of the host do not matter.
 */
export function targetOf(text: string): { target: string; host: string } {
  const url = new URL(text);
  url.hash = "";
  return { target: url.href, host: url.host };
}

/**
 * If a webhook may not use the URL, returns the reason: a sentence for the owner of the webhook. If the URL is allowed, returns null. The
 * sentence reveals nothing about any network.
 */
export function urlErrorOf(text: string, { ownHosts, isLocal }: UrlContext): string | null {
  if (text.length > maxUrl) return `The URL must have at most ${maxUrl} characters.`;
  if (/[\p{C}\p{Z}\\]/u.test(text)) return "The URL must not contain spaces, control characters or backslashes.";
  if (/[\u3002\uff0e\uff61]/.test(text) || /^[^/?#]*\/\/[^/?#]*%/.test(text))
    return "The host must not contain percent signs, or dots other than the plain dot.";
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url) return "This is not an absolute URL.";
  if (!/^https?:$/.test(url.protocol)) return "The URL must begin with https://.";
  if (!/^https?:\/\/[^/]/i.test(text)) return "This is not an absolute URL.";
  const isOpen = isLocal && isLoopback(url.hostname);
  if (url.protocol !== "https:" && !(isLocal && url.protocol === "http:")) return "The URL must begin with https://.";
  if (url.username !== "" || url.password !== "" || /^https?:\/\/[^/?#]*@/i.test(text))
    return "The URL must not contain a user name or password.";
  if (isOpen) return null;
  const host = url.hostname;
  if (host.startsWith("[") || ipaddr.isValid(host)) return "The URL must name a host, not an IP address.";
  if (host.endsWith(".")) return "The host must not end with a dot.";
  if (!host.includes(".")) return "The host must be a public name that contains a dot.";
  if (host.split(".").some((label) => !/^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?$/.test(label)) || host.length > 253 || /\.\d+$/.test(host))
    return "The host is not a name that can be looked up.";
  if (specialDomains.some((domain) => host === domain || host.endsWith(`.${domain}`))) return "The host is not a public name.";
  if (ownHosts.includes(host)) return "The URL must not point to this service.";
  return null;
}
