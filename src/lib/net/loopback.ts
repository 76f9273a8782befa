/**
 * Returns whether a host name always refers to this machine. `hostname` must come from a `URL` object. These names refer to this machine:
 * `localhost`, subdomains of `localhost`, and loopback addresses.
 */
export const isLoopback = (hostname: string): boolean =>
  /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname) || hostname.endsWith(".localhost");
