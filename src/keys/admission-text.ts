import type { Admission, AdmissionRequest, KeyFacts, RateLimit, RefusalCode } from "./admission.ts";

// A guard is asked and answers in one line of text each: words with a space between them, the last of which may hold any
// character. The platform's own way of sending objects costs more than the line, and so does JSON. A line that is not of this
// form throws: nobody is let in by a misunderstanding.

const none = "-";
const mostRemembered = 10_000;
/** By their JSON, which a key's answers repeat. */
const factsByText = new Map<string, KeyFacts>();

export const requestText = ({ secretHash, scope, counted, ip }: AdmissionRequest): string =>
  `${secretHash} ${scope ?? none} ${counted} ${ip}`;

export function readRequest(text: string): AdmissionRequest {
  const [secretHash = "", scope = none, counted, ip = ""] = words(text, 4);
  if (counted !== "true" && counted !== "false") throw new Error("a guard was asked in another form than its own");
  return { secretHash, scope: scope === none ? null : scope, counted: counted === "true", ip };
}

/** `factsText`: the key's facts as JSON. */
export const admissionText = (refusal: RefusalCode | null, { limit, used, resetsAt }: RateLimit, factsText: string): string =>
  `${refusal ?? none} ${limit} ${used} ${resetsAt} ${factsText}`;

export function readAdmission(text: string): Admission {
  const [refusal, limit, used, resetsAt, factsText = ""] = words(text, 5);
  return {
    refusal: refusal === none ? null : (refusal as RefusalCode),
    key: factsIn(factsText),
    rateLimit: { limit: Number(limit), used: Number(used), resetsAt: Number(resetsAt) },
  };
}

function factsIn(text: string): KeyFacts {
  const known = factsByText.get(text);
  if (known) return known;
  const facts: KeyFacts = JSON.parse(text);
  if (factsByText.size >= mostRemembered) factsByText.clear();
  factsByText.set(text, facts);
  return facts;
}

/** The first words of a text, and as the last of `count` all that is left. */
function words(text: string, count: number): string[] {
  const found: string[] = [];
  let start = 0;
  while (found.length < count - 1) {
    const end = text.indexOf(" ", start);
    if (end === -1) throw new Error("a guard was asked or answered in another form than its own");
    found.push(text.slice(start, end));
    start = end + 1;
  }
  found.push(text.slice(start));
  return found;
}
