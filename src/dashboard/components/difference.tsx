import { iso } from "../../time/clock.ts";
import type { Difference } from "../../usage/differences.ts";
import type { Span } from "../../usage/windows.ts";
import { integer, milliseconds } from "../format.ts";

interface DifferenceSentenceProps {
  difference: Difference;
  /** The names and the hourly limits of keys, by their ids. */
  keys: ReadonlyMap<string, { name: string; hourlyLimit: number }>;
  span: Span;
  /** The key whose requests are shown, if only those of one key are. */
  keyId?: string | undefined;
  /** When the compared time was, for example "a week before". */
  before: string;
}

const several = { key: "keys", route: "routes" } as const;

/** Returns what differs, without its subject, for example "687 requests denied, limit 2,000". */
function wordsOf({ kind, now, before }: Difference, limit: number | undefined, when: string): string {
  const against = `against ${kind === "slower" ? milliseconds(before) : integer(before)} ${when}`;
  switch (kind) {
    case "denied":
      return `${integer(now)} requests denied${limit === undefined ? "" : `, limit ${integer(limit)}`}, ${against}`;
    case "failed":
      return `${integer(now)} requests failed with 5xx, ${against}`;
    case "rejected":
      return `${integer(now)} requests rejected with 4xx, ${against}`;
    case "slower":
      return `${milliseconds(now)} on average, ${against}`;
    default:
      return `${integer(now)} requests, ${integer(Math.abs(now - before))} ${kind} than ${when}`;
  }
}

const statuses: Partial<Record<Difference["kind"], string>> = { denied: "429", failed: "5xx", rejected: "4xx" };

/** Renders what differs from the time before, with a link to the requests behind it. */
export const DifferenceSentence = ({ difference, keys, span, keyId, before }: DifferenceSentenceProps) => {
  const { kind, by, values } = difference;
  const [first = ""] = values;
  const key = by === "key" && values.length === 1 ? keys.get(first) : undefined;
  const name = values.length > 1 ? `${values.length} ${several[by]}` : (key?.name ?? first);
  const status = statuses[kind];
  const query = new URLSearchParams({
    ...(status && { status }),
    ...(by === "key" && values.length === 1 ? { key_id: first } : keyId && { key_id: keyId }),
    from: iso(span.from),
    to: iso(span.to),
  });
  return (
    <>
      <a href={`/activity?${query}`}>
        <bdi>{name}</bdi>
      </a>
      , {wordsOf(difference, key?.hourlyLimit, before)}.
    </>
  );
};
