import type { JsonObject } from "../../../src/api/openapi/document.ts";
import { servesSamples } from "../../../src/db/registry/manifests.ts";
import type { DocPage } from "../../../src/docs/page.ts";
import { figures, withFigures } from "../figures.ts";

const guides = [
  ["quick-start", "How to get from a key to a verified webhook in six steps."],
  ["authentication", "The format of keys, their scopes and rotation, and what to do about a leaked key."],
  ["limits", "How the hourly limit works, which headers describe it, and how to back off."],
  ["errors", "The parts of an error, every code, and the order of the checks."],
  ["pagination", "How to read a list to its end."],
  ["idempotency", "How to repeat a POST safely."],
  ["conditional-requests", "How to read only new versions, and how to avoid overwriting the changes of others."],
  ["webhooks", "Requests, verification, retries and local tests."],
  ["usage", "The four usage figures, and how each figure is computed."],
  ["sign-in", "Passkeys, roles, invitations, sessions and the audit log."],
  ["versioning", "Which changes may happen, which changes cannot happen, and how changes are announced."],
  ["changelog", "The changes of each version."],
] as const;

/** The guides for this setting of `SAMPLE_RESOURCES`. The steps of the quick start use the sample resources. */
const served = guides.filter(([name]) => servesSamples || name !== "quick-start");

/** The names of the guides. Each guide is a file in `docs/guides/`. */
export const guideNames = served.map(([name]) => name);

/** Returns the first sentence of a guide. */
const firstSentence = (markdown: string): string => /^(?![#>`|\-*])(.+?[.!?])(?:\s|$)/m.exec(markdown)?.[1]?.slice(0, 300) ?? "";

/**
 * Returns the pages of the guides in reading order, those of the team first. `texts` maps the name of each guide to its Markdown. The guides of the team are all
 * with other names, and each that replaces one of the service.
 */
export function guidePages(document: JsonObject, origin: string, texts: Readonly<Record<string, string>>): DocPage[] {
  const values = figures(document, origin);
  const known: readonly string[] = guides.map(([name]) => name);
  const ofTeam = Object.keys(texts).filter((name) => !known.includes(name));
  const all = [...ofTeam.map((name) => [name, firstSentence(texts[name] ?? "")] as const), ...served];
  return all.map(([name, summary]) => {
    const markdown = withFigures(texts[name] ?? "", values);
    return { path: `/docs/guides/${name}`, title: /^# (.+)$/m.exec(markdown)?.[1] ?? name, kind: "Guide", summary, markdown };
  });
}
