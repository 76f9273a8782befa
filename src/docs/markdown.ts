import { accepts } from "hono/accepts";
import type { PageContext } from "../dashboard/context.ts";
import type { DocPage } from "./page.ts";

/** Returns a line with a link to a page. */
export const linkTo = ({ title, path, kind }: DocPage) => `- [${title}](${path}.md) (${kind})`;

export const markdownHeaders = { "Content-Type": "text/markdown; charset=utf-8", Vary: "Accept" };

/** Returns whether the `Accept` header gives Markdown a higher weight than HTML. */
export const prefersMarkdown = (c: PageContext): boolean =>
  accepts(c, { header: "Accept", supports: ["text/html", "text/markdown"], default: "text/html", match: byWeight }) === "text/markdown";

/**
 * Returns the supported type with the highest weight. If weights are equal, the type that the client names first wins. Wildcards are
 * ignored, so a client that names no supported type gets HTML.
 */
function byWeight(accepted: { type: string; q: number }[], { supports, default: usual }: { supports: string[]; default: string }): string {
  const liked = accepted.filter(({ type, q }) => q > 0 && supports.includes(type)).toSorted((a, b) => b.q - a.q);
  return liked[0]?.type ?? usual;
}
