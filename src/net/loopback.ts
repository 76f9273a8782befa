/**
 * Returns whether a host name from `URL` always refers to this machine. Such a name is `localhost`, a subdomain of `localhost` or a loopback address.
 */
export const isLoopback = (hostname: string): boolean =>
  /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname) || hostname.endsWith(".localhost");
