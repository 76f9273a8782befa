import { dayMs, iso } from "../../lib/time/clock.ts";
import { rateOf } from "../../usage/figures.ts";
import type { Dimension, Share } from "../../usage/read-breakdown.ts";
import type { Span } from "../../usage/windows.ts";
import { exactMilliseconds, integer, rate, share } from "../format.ts";
import { NumberCell } from "./columns.tsx";
import { Empty } from "./notice.tsx";

const maxShares = 20;
const barWidth = 48;

export const breakdownTitles: Record<Dimension, string> = { key: "By key", route: "By route", status: "By status", day: "By day" };
const columns: Record<Dimension, string> = { key: "Key", route: "Route", status: "Status", day: "Day (UTC)" };

/** The orders of a breakdown. Without an order, days are in chronological order, and other values are sorted by requests. */
export const orders = ["requests", "success", "average"] as const;
export type Order = (typeof orders)[number];

const compare: Record<Order, (a: Share, b: Share) => number> = {
  requests: (a, b) => b.requests - a.requests,
  // The lowest success rate and the longest time come first, because these are what a reader looks for.
  success: (a, b) => (rateOf(a) ?? 101) - (rateOf(b) ?? 101),
  average: (a, b) => (b.averageMs ?? -1) - (a.averageMs ?? -1),
};

interface BreakdownProps {
  by: Dimension;
  shares: readonly Share[];
  /** The names of keys, by their ids. */
  names: ReadonlyMap<string, string>;
  order: Order | undefined;
  /** Returns the address of this page with changed parameters. */
  address: (more: Record<string, string>) => string;
  span: Span;
  keyId: string | undefined;
}

/** Renders the requests of a time by one dimension. Each row leads to what stands behind it, and the columns can be sorted. */
export const Breakdown = ({ by, shares, names, order, address, span, keyId }: BreakdownProps) => {
  const total = shares.reduce((sum, { requests }) => sum + requests, 0);
  const sorted = order === undefined ? shares : shares.toSorted(compare[order]);
  const shown = by === "day" ? sorted : sorted.slice(0, maxShares);
  const rest = sorted.slice(shown.length).reduce((sum, { requests }) => sum + requests, 0);
  const most = Math.max(...shares.map(({ requests }) => requests));
  if (shares.length === 0) return <Empty>No requests.</Empty>;
  const head = (name: string, is: Order) => (
    <th scope="col" class="number" aria-sort={order === is ? (is === "success" ? "ascending" : "descending") : undefined}>
      <a href={`${address({ sort: is })}#by-${by}`}>
        {name}
        {order === is && <span aria-hidden="true"> {is === "success" ? "↑" : "↓"}</span>}
      </a>
    </th>
  );
  return (
    <section class="scroll" tabindex={0} aria-label={`${breakdownTitles[by]}, as a table`}>
      <table class="cards breakdown">
        <colgroup>
          <col />
          <col width="136" />
          <col width="80" />
          <col width="80" />
          <col width="80" />
        </colgroup>
        <thead>
          <tr>
            <th scope="col">{columns[by]}</th>
            {head("Requests", "requests")}
            <th scope="col" class="number">
              Share
            </th>
            {head("Success", "success")}
            {head("Average", "average")}
          </tr>
        </thead>
        <tbody>
          {shown.map((of) => (
            <tr>
              <th scope="row" class="name" title={by === "key" ? (names.get(of.value) ?? of.value) : of.value}>
                <Value by={by} value={of.value} names={names} address={address} span={span} keyId={keyId} />
              </th>
              <NumberCell label="Requests">
                <svg class="share-bar" width={barWidth} height={6} aria-hidden="true">
                  <rect width={Math.max(1, (barWidth * of.requests) / most).toFixed(1)} height={6} rx={3} />
                </svg>
                <span class="count">{integer(of.requests)}</span>
              </NumberCell>
              <NumberCell label="Share">{share(of.requests, total)}</NumberCell>
              <NumberCell label="Success">{rate(rateOf(of))}</NumberCell>
              <NumberCell label="Average">{exactMilliseconds(of.averageMs)}</NumberCell>
            </tr>
          ))}
          {rest > 0 && (
            <tr>
              <th scope="row">all others</th>
              <NumberCell label="Requests">{integer(rest)}</NumberCell>
              <NumberCell label="Share">{share(rest, total)}</NumberCell>
              <td />
              <td />
            </tr>
          )}
        </tbody>
      </table>
    </section>
  );
};

/** Renders a key, route, status or day, with a link to its usage or to its requests. */
const Value = ({
  by,
  value,
  names,
  address,
  span,
  keyId,
}: Pick<BreakdownProps, "by" | "names" | "address" | "span" | "keyId"> & { value: string }) => {
  const requests = (filter: Record<string, string>) =>
    `/activity?${new URLSearchParams({ ...filter, ...(keyId && { key_id: keyId }), from: iso(span.from), to: iso(span.to) })}`;
  if (by === "key")
    return (
      <a href={address({ key_id: value })}>
        <bdi>{names.get(value) ?? value}</bdi>
      </a>
    );
  if (by === "day") {
    const start = Date.parse(value);
    // The first and the last day can be only in part in the span.
    const [from, to] = [Math.max(start, span.from), Math.min(start + dayMs, span.to)];
    return <a href={address({ from: iso(from), to: iso(to) })}>{value}</a>;
  }
  if (by === "status")
    return (
      <a href={requests({ status: value })}>
        <code>{value}</code>
      </a>
    );
  return (
    <a href={requests({ route: value })}>
      <code>{value}</code>
    </a>
  );
};
