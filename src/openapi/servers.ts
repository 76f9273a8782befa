/** An entry of `servers` in the OpenAPI document. */
type Server = { url: string; description: string };

/** The server in the checked-in document: the service that `npm start` runs. A served document names the servers of its deployment instead. */
export const laptop: Server = { url: "http://localhost:8787", description: "The local service, started with npm start." };

/** Returns the servers of a deployment: its configured origins or, if none is configured, the origin of the request. */
export function serversOf(publicOrigin: string, origin: string): Server[] {
  const configured = publicOrigin.split(",").flatMap((origin) => (origin.trim() === "" ? [] : [new URL(origin.trim()).origin]));
  return (configured.length > 0 ? configured : [origin]).map((url) => ({ url, description: "The service that serves this document." }));
}

/**
 * Replaces the servers in the text of a generated document. In YAML, a line of JSON is a valid value. The document is not parsed, because parsing
 * half a megabyte would cost as much as 100 requests.
 */
export const withServers = (text: string, servers: readonly Server[]): string =>
  text
    .replace(/^ {2}"servers": \[\n[\s\S]*?\n {2}\],$/m, () => `  "servers": ${JSON.stringify(servers)},`)
    .replace(/^servers:\n(?:[ -].*\n)+/m, () => `servers: ${JSON.stringify(servers)}\n`);
