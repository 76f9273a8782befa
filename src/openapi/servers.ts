/** A place where the service answers, as the document names it. */
type Server = { url: string; description: string };

/** What the checked-in document names: the service that `npm start` runs. Served, the document names where it is served. */
export const laptop: Server = { url: "http://localhost:8787", description: "The service on this machine, after npm start." };

/** The origins that a deployment is configured with or, without any, the one that was asked. */
export function serversOf(publicOrigin: string, asked: string): Server[] {
  const configured = publicOrigin.split(",").flatMap((origin) => (origin.trim() === "" ? [] : [new URL(origin.trim()).origin]));
  return (configured.length > 0 ? configured : [asked]).map((url) => ({ url, description: "The service that serves this document." }));
}

/**
 * The text of a document, as `npm run generate` writes it, with other servers. The text and not the document: to parse half a megabyte would cost as
 * much as a hundred requests. YAML takes a line of JSON as it is.
 */
export const withServers = (text: string, servers: readonly Server[]): string =>
  text
    .replace(/^ {2}"servers": \[\n[\s\S]*?\n {2}\],$/m, () => `  "servers": ${JSON.stringify(servers)},`)
    .replace(/^servers:\n(?:[ -].*\n)+/m, () => `servers: ${JSON.stringify(servers)}\n`);
