import type { Admission, AdmissionRequest, KeyConfig, KeyFacts, RateLimit, RefusalCode } from "./admission.ts";

// A Worker's question to a guard and its answer, as one HTTP exchange: bare headers, no body. An RPC would carry the same as
// objects, but costs a quarter more CPU (docs/performance.md), and this is the one call that every request makes.

const origin = "http://guard/";
/** "key" in a header's name keeps its value out of the platform's logs. */
const questionHeader = "key-question";
const limitHeader = "key-limit";
const factsHeader = "key-facts";

const mostRemembered = 10_000;

/** What `stub.fetch` is given for a question. */
export const questionOf = ({ secretHash, ip, scope, counted }: AdmissionRequest): [string, { headers: Record<string, string> }] => [
  origin,
  { headers: { [questionHeader]: encodeURIComponent(JSON.stringify([secretHash, ip, scope, counted])) } },
];

export function readQuestion(request: Request): AdmissionRequest {
  const [secretHash, ip, scope, counted] = JSON.parse(decodeURIComponent(request.headers.get(questionHeader) ?? ""));
  return { secretHash, ip, scope, counted };
}

/** What the API says of a key, as its guard sends it with each answer: made once for a configuration. */
export const encodeFacts = ({ accountId, accountName, name, scopes, expiresAt }: KeyConfig): string =>
  encodeURIComponent(JSON.stringify({ accountId, accountName, name, scopes, expiresAt } satisfies KeyFacts));

export interface Decision {
  refusal: RefusalCode | null;
  rateLimit: RateLimit;
}

/** A guard's answer; 404 where there is no such key. */
export function answerOf(decision: Decision | null, facts: string): Response {
  if (decision === null) return new Response(null, { status: 404 });
  const { limit, used, resetsAt } = decision.rateLimit;
  return new Response(null, { headers: { [limitHeader]: `${limit} ${used} ${resetsAt} ${decision.refusal ?? ""}`, [factsHeader]: facts } });
}

export function readAnswer({ headers, status }: Response): Admission | null {
  if (status === 404) return null;
  const [limit, used, resetsAt, refusal] = (headers.get(limitHeader) ?? "").split(" ");
  return {
    refusal: refusal ? (refusal as RefusalCode) : null,
    key: readFacts(headers.get(factsHeader) ?? ""),
    rateLimit: { limit: Number(limit), used: Number(used), resetsAt: Number(resetsAt) },
  };
}

const known = new Map<string, KeyFacts>();

/** The same text always means the same, so it is read once. */
function readFacts(text: string): KeyFacts {
  let facts = known.get(text);
  if (facts === undefined) {
    facts = JSON.parse(decodeURIComponent(text)) as KeyFacts;
    if (known.size >= mostRemembered) known.clear();
    known.set(text, facts);
  }
  return facts;
}
