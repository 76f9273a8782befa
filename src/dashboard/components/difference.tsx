import { iso } from "../../lib/time/clock.ts";
import type { LimitState } from "../../log/entry.ts";
import type { Difference } from "../../usage/differences.ts";
import type { Span } from "../../usage/windows.ts";
import { integer, milliseconds } from "../format.ts";
import { NameLink } from "./name-link.tsx";

interface DifferenceSentenceProps {
  difference: Difference;
  /** The names of keys, by their ids. */
  keys: ReadonlyMap<string, { name: string }>;
  /** The limit that denied requests, if it is known. */
  limit: LimitState | null;
  span: Span;
  /** The key whose requests are shown, if only those of one key are. */
  keyId?: string | undefined;
  /** When the compared time was, for example "a week before". */
  before: string;
}

const several = { key: "keys", route: "routes" } as const;

/** Returns what differs, without its subject, for example "687 requests denied, limit 2,000". */
function wordsOf({ kind, now, before }: Difference, limit: LimitState | null, when: string): string {
  const against = `against ${kind === "times" ? milliseconds(before) : integer(before)} ${when}`;
  switch (kind) {
    case "denied":
      return `${integer(now)} requests refused${limit === null ? "" : `, ${limitInWords(limit)}`}, ${against}`;
    case "failed":
      return `${integer(now)} requests failed with 5xx, ${against}`;
    case "rejected":
      return `${integer(now)} requests rejected with 4xx, ${against}`;
    case "times":
      return `${milliseconds(now)} on average, ${against}`;
    default:
      return `${integer(now)} requests, ${integer(Math.abs(now - before))} ${kind} than ${when}`;
  }
}

/** Returns for example "limit 2,000". Only limits of other windows than the hour name their window. */
function limitInWords({ name, limit }: LimitState): string {
  const ofAccount = name.startsWith("account-");
  const per = name === "hour" ? "" : ` per ${name.replace("account-", "")}`;
  return `limit ${integer(limit)}${per}${ofAccount ? " of all keys" : ""}`;
}

/** Renders what differs from the time before, with a link to the requests behind it. */
export const DifferenceSentence = ({ difference, keys, limit, span, keyId, before }: DifferenceSentenceProps) => {
  const { by, values, statuses } = difference;
  const [first = ""] = values;
  const only = values.length === 1;
  const name = only ? ((by === "key" ? keys.get(first)?.name : undefined) ?? first) : `${values.length} ${several[by]}`;
  const query = new URLSearchParams({
    ...(statuses && { status: statuses.join(",") }),
    ...(by === "key" && only ? { key_id: first } : keyId && { key_id: keyId }),
    ...(by === "route" && only && { route: first }),
    from: iso(span.from),
    to: iso(span.to),
  });
  return (
    <>
      <NameLink href={`/activity?${query}`} name={name} />, {wordsOf(difference, limit, before)}.
    </>
  );
};
