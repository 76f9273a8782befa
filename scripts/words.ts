import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ofDocument, ofMarkdown, ofPage, ofSource, proseFiles, sentencesOf, wordsOf } from "./prose.ts";
import { root } from "./root.ts";
import { randomFrom } from "./seed-random.ts";

// `npm run words [-- SEED]` prints 150 random sentences from documents, pages, API descriptions and comments. Readers mark the sentences
// that they had to read twice. If the texts do not change, the same SEED selects the same sentences. CONTRIBUTING.md sets the maximum
// number of marked sentences.

const count = 150;

const files = proseFiles().map((file) => ({ file, text: readFileSync(join(root, file), "utf8") }));
const kinds = [
  files.filter(({ file }) => file.endsWith(".md")).flatMap(({ file, text }) => ofMarkdown(file, text)),
  files.filter(({ file }) => file.endsWith(".tsx")).flatMap(({ file, text }) => ofPage(file, text)),
  ofDocument(),
  files.filter(({ file }) => !file.endsWith(".md")).flatMap(({ file, text }) => ofSource(file, text)),
];
const random = randomFrom(Number(process.argv[2] ?? 1));
const drawn: string[] = [];
for (const [index, kind] of kinds.entries()) {
  const sentences = [...new Set(kind.flatMap(({ text }) => sentencesOf(text)))];
  const long = sentences.filter((each) => wordsOf(each) >= 4);
  // If 150 is not divisible by the number of kinds, each of the first kinds gets one more sentence than the others.
  const share = Math.floor(count / kinds.length) + (index < count % kinds.length ? 1 : 0);
  for (let n = 0; n < share && long.length > 0; n++) drawn.push(...long.splice(Math.floor(random() * long.length), 1));
}
// Readers see the text of a link without its address.
const shown = (sentence: string) => sentence.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll(/\]\([^)]*\)/g, "");
for (const [index, sentence] of drawn.entries()) console.log(`${index + 1}. ${shown(sentence)}`);
