import { Marked, type Tokens } from "marked";
import { CopyButton } from "../../src/dashboard/components/secret.tsx";
import type { Heading } from "../../src/docs/page.ts";
// biome-ignore lint/correctness/useImportExtensions: the types beside the file mislead the rule.
import { highlight } from "./highlight.mjs";

export { highlight };

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escapeHtml = (text: string) => text.replaceAll(/[&<>"]/g, (character) => escapes[character] ?? "");

const slugOf = (text: string) =>
  text
    .toLowerCase()
    .replaceAll(/<[^>]*>|&\w+;/g, "")
    .replaceAll(/[^\p{L}\p{N}]+/gu, "-")
    .replaceAll(/^-|-$/g, "");

const languages: Record<string, string> = { sh: "A command", js: "JavaScript", python: "Python", go: "Go", json: "JSON", yaml: "YAML" };

/** A browser breaks a line after a hyphen. Code with a hyphen that has at most this many characters stays on one line. */
const maxUnbroken = 28;

/**
 * Renders a Markdown page as HTML. Headings of the first level are left out, because the layout shows the title. Each heading has a stable
 * anchor. Each code block scrolls in its own box.
 */
export function renderMarkdown(markdown: string): string {
  const used = new Map<string, number>();
  let code = 0;
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }: Tokens.Heading) {
        if (depth === 1) return "";
        const text = this.parser.parseInline(tokens);
        const slug = slugOf(text);
        const before = used.get(slug) ?? 0;
        used.set(slug, before + 1);
        const id = before === 0 ? slug : `${slug}-${before + 1}`;
        return `<h${depth} id="${id}">${text} <a class="anchor" href="#${id}" aria-label="Link to this part">#</a></h${depth}>\n`;
      },
      code({ text, lang }: Tokens.Code) {
        code += 1;
        const label = `${languages[lang?.split(" ")[0] ?? ""] ?? "Text"} ${code}`;
        return `<div class="sample"><section class="code" tabindex="0" aria-label="${label}"><pre><code id="code-${code}">${highlight(text, lang)}</code></pre></section>
${CopyButton({ of: `#code-${code}`, what: label })}</div>\n`;
      },
      codespan({ text }: Tokens.Codespan) {
        const isShort = text.length <= maxUnbroken && text.includes("-");
        return `<code${isShort ? ' class="unbroken"' : ""}>${escapeHtml(text)}</code>`;
      },
      table({ header, rows }: Tokens.Table) {
        const inline = (cell: Tokens.TableCell) => this.parser.parseInline(cell.tokens);
        const heads = header.map((cell) => `<th scope="col">${inline(cell)}</th>`).join("");
        const body = rows.map(([first, ...rest]) => {
          // Each cell has the heading of its column as a label, because the layout can show a table as cards.
          const labels = header.slice(1).map((cell) => escapeHtml(cell.text));
          const others = rest
            .map((cell, index) => `<td${cell.text === "" ? "" : ` data-label="${labels[index]}"`}>${inline(cell)}</td>`)
            .join("");
          return `<tr><th scope="row">${first ? inline(first) : ""}</th>${others}</tr>`;
        });
        return `<table class="cards"><thead><tr>${heads}</tr></thead><tbody>${body.join("")}</tbody></table>\n`;
      },
      html({ text }: Tokens.HTML | Tokens.Tag) {
        return escapeHtml(text);
      },
    },
  });
  return marked.parse(markdown, { async: false });
}

/** Returns the headings of a page that the HTML has an anchor for, in order. */
export function headingsOf(markdown: string, html: string): Heading[] {
  const anchors = [...html.matchAll(/<h\d id="([^"]+)">(.*?) <a class="anchor"/g)].map(([, id = "", text = ""]) => ({
    id,
    text: text.replaceAll(/<[^>]*>/g, ""),
  }));
  const headings: Heading[] = [];
  let [offset, isCode, next] = [0, false, 0];
  for (const line of markdown.split("\n")) {
    if (line.startsWith("```")) isCode = !isCode;
    const anchor = anchors[next];
    if (!isCode && anchor && /^##+ /.test(line) && [anchor.id, anchor.id.replace(/-\d+$/, "")].includes(slugOf(line))) {
      headings.push({ at: offset, ...anchor });
      next++;
    }
    offset += line.length + 1;
  }
  return headings;
}
