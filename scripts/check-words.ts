import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { marked, type Token } from "marked";
import { root } from "./root.ts";

// `npm run check`: the wording of documents, comments and API descriptions. A sentence has at most 30 words, a line of prose at most 160
// characters, and some words are not used, since readers stumbled over them.

const maxWords = 30;
const maxLine = 160;

/** Words that are not used, and what to write instead. */
const notUsed: [RegExp, string][] = [
  [/\bwhoever\b/i, "name the person"],
  [/\bwhatever\b/i, '"any", "every", or name the thing'],
  [/\bof which\b/i, "two sentences"],
  [/\bwhat (?:it|this) has not\b/i, '"not supported"'],
  [/\bwhat moved most\b/i, '"biggest change"'],
  [/\bjobs? of the clock\b/i, '"scheduled job"'],
  [/\broomiest\b/i, '"least full"'],
  [/\bremembered refusals?\b/i, '"denial cache"'],
];
const commentStart: [RegExp, string] = [/^Answers\b/, '"Returns" or "Responds with"'];

/** Files that are exempt, and why. */
const exempt: Record<string, string> = {
  "docs/performance.md": "its tables and the sentences about them are replaced when everything is measured anew",
  "scripts/check-words.ts": "it has the words that are not used",
};

interface Passage {
  file: string;
  line: number;
  text: string;
}

/** Splits a text into sentences. Code, a list of code, and the address of a link each count as one word. */
function sentencesOf(text: string): string[] {
  return text
    .replaceAll(/`[^`]*`/g, "code")
    .replaceAll(/code(?:, code)+/g, "code")
    .replaceAll(/\]\([^)]*\)/g, "]")
    .split(/(?<=[.?!])["')\]]*\s+|\n\s*\n/)
    .filter((sentence) => sentence.trim() !== "");
}

/** Paragraphs and items of lists of a Markdown document. */
function passagesOf(tokens: readonly Token[]): string[] {
  return tokens.flatMap((token) => {
    if (token.type === "paragraph" || token.type === "text") return [token.raw];
    if (token.type === "list") return passagesOf(token.items);
    if (token.type === "list_item" || token.type === "blockquote") return passagesOf(token.tokens ?? []);
    return [];
  });
}

const lineOf = (text: string, part: string) => text.slice(0, Math.max(0, text.indexOf(part))).split("\n").length;

function ofMarkdown(file: string, text: string): Passage[] {
  return passagesOf(marked.lexer(text)).map((part) => ({ file, line: lineOf(text, part), text: part }));
}

/** Comments of a source file: the lines of a block, or of `//` after each other, are one passage. */
function ofSource(file: string, text: string): Passage[] {
  const passages: Passage[] = [];
  let last = -1;
  for (const [index, line] of text.split("\n").entries()) {
    const comment = /^\s*(?:\/\/|\/\*\*?|\*(?!\/)|#(?!!))\s?(?<words>.*?)\s*(?:\*\/)?$/.exec(line)?.groups?.words;
    if (comment === undefined) continue;
    const previous = passages.at(-1);
    if (previous && last === index - 1) previous.text += `\n${comment}`;
    else passages.push({ file, line: index + 1, text: comment });
    last = index;
  }
  return passages;
}

/** Every `description` and `summary` of the OpenAPI document. */
function ofDocument(file: string, value: unknown, at = ""): Passage[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, child]) =>
    typeof child === "string"
      ? ["description", "summary"].includes(name)
        ? [{ file: `${file}${at}`, line: 0, text: child }]
        : []
      : ofDocument(file, child, `${at}/${name}`),
  );
}

const files = execFileSync("git", ["ls-files", "*.md", "*.ts", "*.tsx", "wrangler.toml"], { cwd: root, encoding: "utf8" })
  .split("\n")
  .filter((file) => file !== "" && !file.startsWith("test/released/") && file !== "client/src/schema.ts" && !(file in exempt));

const found: string[] = [];
const passages: Passage[] = [];
for (const file of files) {
  const text = readFileSync(join(root, file), "utf8");
  const isMarkdown = file.endsWith(".md");
  const own = isMarkdown ? ofMarkdown(file, text) : ofSource(file, text);
  passages.push(...own);
  for (const { line, text: part } of own) {
    const [start, instead] = commentStart;
    if (!isMarkdown && start.test(part)) found.push(`${file}:${line}: starts with "Answers": write ${instead}`);
    for (const [index, each] of part.split("\n").entries())
      if (each.length > maxLine) found.push(`${file}:${line + index}: the line has ${each.length} characters`);
  }
  for (const [index, line] of text.split("\n").entries())
    for (const [word, instead] of notUsed)
      if (word.test(line)) found.push(`${file}:${index + 1}: "${word.exec(line)?.[0]}": write ${instead}`);
}
passages.push(...ofDocument("public/api/v1/openapi.json", JSON.parse(readFileSync(join(root, "public/api/v1/openapi.json"), "utf8"))));
for (const { file, line, text } of passages)
  for (const sentence of sentencesOf(text)) {
    const words = sentence.split(/\s+/).filter((word) => /\w/.test(word)).length;
    if (words > maxWords) found.push(`${file}:${line}: a sentence of ${words} words: ${sentence.replaceAll(/\s+/g, " ")}`);
  }
if (found.length > 0) console.error(found.join("\n"));
process.exitCode = found.length > 0 ? 1 : 0;
