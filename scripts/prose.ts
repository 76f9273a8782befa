import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { marked, type Token } from "marked";
import { root } from "./root.ts";

// Extracts the prose of the project from documents, code comments, API descriptions and pages.

export interface Passage {
  file: string;
  line: number;
  text: string;
}

/** Splits a text into sentences. */
export const sentencesOf = (text: string): string[] =>
  text
    .split(/(?<=[.?!])["')\]]*\s+|\n\s*\n/)
    .map((sentence) => sentence.replaceAll(/\s+/g, " ").trim())
    .filter((sentence) => sentence !== "");

/**
 * Counts the words of a sentence. A piece of code counts as one word. A list of such pieces also counts as one word. The addresses of links
 * do not count.
 */
export const wordsOf = (sentence: string): number =>
  sentence
    .replaceAll(/`[^`]*`/g, "code")
    .replaceAll(/code(?:, code)+/g, "code")
    .replaceAll(/\]\([^)]*\)/g, "]")
    .split(" ")
    .filter((word) => /\w/.test(word)).length;

/** Returns the paragraphs and list items of a Markdown document. */
function passagesOf(tokens: readonly Token[]): string[] {
  return tokens.flatMap((token) => {
    if (token.type === "paragraph" || token.type === "text") return [token.raw];
    if (token.type === "list") return passagesOf(token.items);
    if (token.type === "list_item" || token.type === "blockquote") return passagesOf(token.tokens ?? []);
    return [];
  });
}

const lineOf = (text: string, part: string) => text.slice(0, Math.max(0, text.indexOf(part))).split("\n").length;

export function ofMarkdown(file: string, text: string): Passage[] {
  return passagesOf(marked.lexer(text)).map((part) => ({ file, line: lineOf(text, part), text: part }));
}

/** Returns the comments of a source file. Consecutive comment lines are one passage. */
export function ofSource(file: string, text: string): Passage[] {
  const form = /\.(?:toml|ya?ml)$/.test(file) ? /^\s*#\s?(?<words>.*)$/ : /^\s*(?:\/\/|\/\*\*?|\*(?!\/))\s?(?<words>.*?)\s*(?:\*\/)?$/;
  const passages: Passage[] = [];
  let last = -1;
  for (const [index, line] of text.split("\n").entries()) {
    const comment = form.exec(line)?.groups?.words;
    if (comment === undefined) continue;
    const previous = passages.at(-1);
    if (previous && last === index - 1) previous.text += `\n${comment}`;
    else passages.push({ file, line: index + 1, text: comment });
    last = index;
  }
  return passages;
}

/**
 * Returns the texts between the block tags in the source of a page, in their order. In these texts, "…" replaces each value that the page
 * inserts.
 */
export function ofPage(file: string, text: string): Passage[] {
  const plain = text
    .replaceAll(/\{" "\}/g, " ")
    .replaceAll(/<\/?(?:a|code|strong|em|span)\b(?:\{[^{}]*\}|[^<>{}])*>/g, "")
    .replaceAll(/<[A-Z]\w*(?:\{[^{}]*\}|[^<>{}])*\/>|\{[^{}<>;]*\}/g, (value) => `…${"\n".repeat(value.split("\n").length - 1)}`);
  return [...plain.matchAll(/>(?<words>[^<>{}=;]*[a-z]{2} [a-z][^<>{}=;]*)</g)].map((match) => ({
    file,
    line: plain.slice(0, match.index).split("\n").length,
    text: (match.groups?.words ?? "").replaceAll(/\s+/g, " ").trim(),
  }));
}

/** Collects every `description` and `summary` in a part of the OpenAPI document. */
function inDocument(file: string, value: unknown, at = ""): Passage[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, child]) =>
    typeof child === "string"
      ? ["description", "summary"].includes(name)
        ? [{ file: `${file}${at}`, line: 0, text: child }]
        : []
      : inDocument(file, child, `${at}/${name}`),
  );
}

/** Returns the descriptions and summaries from the OpenAPI document in `public/api/v1/openapi.json`. */
export function ofDocument(): Passage[] {
  const file = "public/api/v1/openapi.json";
  return inDocument(file, JSON.parse(readFileSync(join(root, file), "utf8")));
}

const generatedFiles = ["client/src/schema.ts", "public/api/v1/openapi.yaml"];
const kinds = ["*.md", "*.ts", "*.tsx", "*.mjs", "*.toml", "*.yaml", "*.yml"];

/**
 * Returns the paths of the files that contain prose. Excludes the generated file `client/src/schema.ts`. New files that are not in git yet
 * are included.
 */
export const proseFiles = (): string[] =>
  execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", ...kinds], { cwd: root, encoding: "utf8" })
    .split("\n")
    .filter((file) => file !== "" && !generatedFiles.includes(file) && existsSync(join(root, file)));
