import type { DocPage } from "../../../src/docs/page.ts";
import type { JsonObject } from "../../../src/openapi/document.ts";
import { figures, withFigures } from "../figures.ts";

const guides = [
  ["quick-start", "From nothing to a verified webhook in six steps."],
  ["authentication", "Keys: what they look like, scopes, rotation, and what to do about a leak."],
  ["limits", "How the hour works, which headers tell, and how to back off."],
  ["errors", "What an error says, every code, and what comes first."],
  ["pagination", "How to read a list to its end."],
  ["idempotency", "How to repeat a POST safely."],
  ["conditional-requests", "How to read only what is new, and lose no change."],
  ["webhooks", "What is sent, how to verify it, retries, and local tests."],
  ["usage", "The four figures, and how each is computed."],
  ["sign-in", "Passkeys, roles, invitations, sessions and the audit log."],
  ["versioning", "What may change, what may not, and how you are told."],
  ["changelog", "What has changed, version by version."],
] as const;

/** The names of the guides: files of `docs/guides/`, and the changelog. */
export const guideNames = guides.map(([name]) => name);

/** The guides, in the order in which they are read. `texts`: their Markdown by name. */
export function guidePages(document: JsonObject, origin: string, texts: Readonly<Record<string, string>>): DocPage[] {
  const values = figures(document, origin);
  return guides.map(([name, summary]) => {
    const markdown = withFigures(texts[name] ?? "", values);
    return { path: `/docs/guides/${name}`, title: /^# (.+)$/m.exec(markdown)?.[1] ?? name, kind: "Guide", summary, markdown };
  });
}
