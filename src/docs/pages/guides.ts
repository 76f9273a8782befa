import changelog from "../../../CHANGELOG.md";
import type { JsonObject } from "../../openapi/document.ts";
import { figures, withFigures } from "../figures.ts";
import authentication from "../guides/authentication.md";
import conditionalRequests from "../guides/conditional-requests.md";
import errors from "../guides/errors.md";
import idempotency from "../guides/idempotency.md";
import limits from "../guides/limits.md";
import pagination from "../guides/pagination.md";
import quickStart from "../guides/quick-start.md";
import signIn from "../guides/sign-in.md";
import usage from "../guides/usage.md";
import versioning from "../guides/versioning.md";
import webhooks from "../guides/webhooks.md";
import type { DocPage } from "../page.ts";

const guides = [
  ["quick-start", quickStart, "From nothing to a verified webhook in six steps."],
  ["authentication", authentication, "Keys: what they look like, scopes, rotation, and what to do about a leak."],
  ["limits", limits, "How the hour works, which headers tell, and how to back off."],
  ["errors", errors, "What an error says, every code, and what comes first."],
  ["pagination", pagination, "How to read a list to its end."],
  ["idempotency", idempotency, "How to repeat a POST safely."],
  ["conditional-requests", conditionalRequests, "How to read only what is new, and lose no change."],
  ["webhooks", webhooks, "What is sent, how to verify it, retries, and local tests."],
  ["usage", usage, "The four figures, and how each is computed."],
  ["sign-in", signIn, "Passkeys, roles, invitations, sessions and the audit log."],
  ["versioning", versioning, "What may change, what may not, and how you are told."],
  ["changelog", changelog, "What has changed, version by version."],
] as const;

/** The guides, in the order in which they are read. */
export function guidePages(document: JsonObject, origin: string): DocPage[] {
  const values = figures(document, origin);
  return guides.map(([name, text, summary]) => {
    const markdown = withFigures(text, values);
    return { path: `/docs/guides/${name}`, title: /^# (.+)$/m.exec(markdown)?.[1] ?? name, kind: "Guide", summary, markdown };
  });
}
