import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ofDocument, ofMarkdown, ofPage, ofSource, type Passage, proseFiles, sentencesOf, wordsOf } from "./prose.ts";
import { root } from "./root.ts";

// `npm run check` checks the wording of documents, pages, comments and API descriptions. A sentence may have at most 30 words. A line of prose
// may have at most 160 characters. Some words are not allowed, because readers stumbled over them.

const maxWords = 30;
const maxLine = 160;

/** Forbidden words and their replacements. */
const notUsed: [RegExp, string][] = [
  [/\bwhoever\b/i, "name the person"],
  [/\bwhatever\b/i, '"any", "every", or name the thing'],
  [/\bof which\b/i, "two sentences"],
  [/\bwhat (?:it|this) has not\b/i, '"not supported"'],
  [/\bwhat moved most\b/i, '"biggest change"'],
  [/\bjobs? of the clock\b/i, '"scheduled job"'],
  [/\broomiest\b/i, '"least full"'],
  [/\bremembered refusals?\b/i, '"denial cache"'],
  [/\bgenuine keys?\b/i, '"verified key"'],
  [/\bmovers\b/i, '"biggest change"'],
  [/\bvitals\b/i, '"status"'],
  [/\bin force\b/i, '"active"'],
  [/\banew\b/i, '"again"'],
  [/\bbroken off\b/i, '"interrupted"'],
  [/\balso if\b/i, '"even if"'],
  [/\bheld bytes\b/i, '"body budget"'],
];
const commentStart: [RegExp, string] = [/^Answers\b/, '"Returns" or "Responds with"'];

/** The files that are exempt from the check. Each file is mapped to the reason. */
const exempt: Record<string, string> = {
  "scripts/check-words.ts": "it has the words that are not used",
};

const files = proseFiles().filter((file) => !(file in exempt));

const found: string[] = [];
const passages: Passage[] = [];
for (const file of files) {
  const text = readFileSync(join(root, file), "utf8");
  const isMarkdown = file.endsWith(".md");
  const own = isMarkdown ? ofMarkdown(file, text) : ofSource(file, text);
  passages.push(...own, ...(file.endsWith(".tsx") ? ofPage(file, text) : []));
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
passages.push(...ofDocument());
for (const { file, line, text } of passages)
  for (const sentence of sentencesOf(text)) {
    const words = wordsOf(sentence);
    if (words > maxWords) found.push(`${file}:${line}: a sentence of ${words} words: ${sentence}`);
  }
if (found.length > 0) console.error(found.join("\n"));
process.exitCode = found.length > 0 ? 1 : 0;
