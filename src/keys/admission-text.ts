import { type Admission, type AdmissionRequest, type KeyFacts, type RateLimit, type RefusalCode, refusalCodes } from "./admission.ts";

// A guard is asked and answers in one line of text each: words with a space between them, the last of which may hold any
// character. The platform's own way of sending objects costs more than the line, and so does JSON. A line that is not of this
// form throws: nobody is let in by a misunderstanding.

const none = "-";
const mostRemembered = 10_000;
/** All of an admission but how much is used, which a key's answers repeat until its window ends: by its text. */
const termsByText = new Map<string, Terms>();

interface Terms {
  refusal: RefusalCode | null;
  key: KeyFacts;
  limit: number;
  resetsAt: number;
}

export const requestText = ({ secretHash, scope, counted, ip }: AdmissionRequest): string =>
  `${secretHash} ${scope ?? none} ${counted} ${ip}`;

export function readRequest(text: string): AdmissionRequest {
  const [secretHash = "", scope = none, counted, ip = ""] = words(text, 4);
  if (counted !== "true" && counted !== "false") throw otherForm();
  return { secretHash, scope: scope === none ? null : scope, counted: counted === "true", ip };
}

/** `factsText`: the key's facts as JSON. */
export const admissionText = (refusal: RefusalCode | null, { limit, used, resetsAt }: RateLimit, factsText: string): string =>
  `${used} ${refusal ?? none} ${limit} ${resetsAt} ${factsText}`;

export function readAdmission(text: string): Admission {
  const end = text.indexOf(" ");
  const used = numberIn(text.slice(0, end));
  const { refusal, key, limit, resetsAt } = termsIn(text.slice(end + 1));
  return { refusal, key, rateLimit: { limit, used, resetsAt } };
}

function termsIn(text: string): Terms {
  const known = termsByText.get(text);
  if (known) return known;
  const [refusal, limit, resetsAt, factsText = ""] = words(text, 4);
  const terms: Terms = {
    refusal: refusal === none ? null : refusalIn(refusal),
    key: JSON.parse(factsText),
    limit: numberIn(limit),
    resetsAt: numberIn(resetsAt),
  };
  if (termsByText.size >= mostRemembered) termsByText.clear();
  termsByText.set(text, terms);
  return terms;
}

function refusalIn(word: string | undefined): RefusalCode {
  const refusal = refusalCodes.find((code) => code === word);
  if (!refusal) throw otherForm();
  return refusal;
}

function numberIn(word = ""): number {
  if (!/^\d+$/.test(word)) throw otherForm();
  return Number(word);
}

/** The first words of a text, and as the last of `count` all that is left. */
function words(text: string, count: number): string[] {
  const found: string[] = [];
  let start = 0;
  while (found.length < count - 1) {
    const end = text.indexOf(" ", start);
    if (end === -1) throw otherForm();
    found.push(text.slice(start, end));
    start = end + 1;
  }
  found.push(text.slice(start));
  return found;
}

const otherForm = () => new Error("a guard was asked or answered in another form than its own");
