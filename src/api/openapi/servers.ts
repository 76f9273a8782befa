import { publicOrigins } from "../../lib/net/public-origins.ts";

/** An entry of `servers` in the OpenAPI document. */
type Server = { url: string; description: string };

/**
 * The server in the repository's OpenAPI document: the service that `npm start` runs. A deployment serves a document that lists the servers of
 * the deployment instead.
 */
export const laptop: Server = { url: "http://localhost:8787", description: "The local service, started with npm start." };

/** Returns the servers of a deployment: the configured origins. If no origin is configured, returns the origin of the request. */
export function serversOf(publicOrigin: string, origin: string): Server[] {
  const configured = publicOrigins(publicOrigin);
  return (configured.length > 0 ? configured : [origin]).map((url) => ({ url, description: "The service that serves this document." }));
}

/**
 * Replaces the servers in the text of a generated document. In the YAML document, the new value is a line of JSON, which is valid YAML. The
 * function does not parse the document. Parsing half a megabyte would cost as much as 100 requests.
 */
export const withServers = (text: string, servers: readonly Server[]): string =>
  text
    .replace(/^ {2}"servers": \[\n[\s\S]*?\n {2}\],$/m, () => `  "servers": ${JSON.stringify(servers)},`)
    .replace(/^servers:\n(?:[ -].*\n)+/m, () => `servers: ${JSON.stringify(servers)}\n`);
