/** Whether a host name, as `URL` writes it, leads to this machine alone: localhost, what is below it, and the loopback addresses. */
export const isLoopback = (hostname: string): boolean =>
  /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname) || hostname.endsWith(".localhost");
