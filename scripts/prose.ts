import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { marked, type Token } from "marked";
import { root } from "./root.ts";

// Extracts the prose of the project: paragraphs of documents, comments, API descriptions, and texts of pages.

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

/** Counts the words of a sentence. Code and a list of code count as one word. The address of a link is not counted. */
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
  const form = file.endsWith(".toml") ? /^\s*#\s?(?<words>.*)$/ : /^\s*(?:\/\/|\/\*\*?|\*(?!\/))\s?(?<words>.*?)\s*(?:\*\/)?$/;
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

/** Returns the texts between the block tags of a page's source, in order. "…" stands for a value that the page fills in. */
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

/** Returns every `description` and `summary` in the OpenAPI document. */
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

/** Returns the descriptions and summaries in the OpenAPI document that is checked in. */
export function ofDocument(): Passage[] {
  const file = "public/api/v1/openapi.json";
  return inDocument(file, JSON.parse(readFileSync(join(root, file), "utf8")));
}

/** Returns the files of the project that contain prose, without generated files. */
export const proseFiles = (): string[] =>
  execFileSync("git", ["ls-files", "*.md", "*.ts", "*.tsx", "wrangler.toml"], { cwd: root, encoding: "utf8" })
    .split("\n")
    .filter((file) => file !== "" && file !== "client/src/schema.ts");
