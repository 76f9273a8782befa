/** The methods that a request in the log can have: a token of RFC 9110 with at most 32 characters. */
export const methodForm = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/;

const methods = new Set(["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"]);

/** Returns the method of a request, or `_OTHER` if it is not a method of HTTP. A client can send any token as the method. */
export const knownMethod = (method: string): string => (methods.has(method) ? method : "_OTHER");
