import type { Share } from "../../usage/read-breakdown.ts";
import { integer } from "../format.ts";

interface Move {
  value: string;
  before: number;
  now: number;
}

/**
 * Compares the requests of two windows by value, for example by route. Returns the value with the biggest change, or null if nothing
 * changed.
 */
export function biggestChange(now: readonly Share[], before: readonly Share[]): Move | null {
  const former = new Map(before.map(({ value, requests }) => [value, requests]));
  const present = new Map(now.map(({ value, requests }) => [value, requests]));
  const moves = [...new Set([...former.keys(), ...present.keys()])].map((value) => ({
    value,
    before: former.get(value) ?? 0,
    now: present.get(value) ?? 0,
  }));
  const [largest] = moves.toSorted((a, b) => Math.abs(b.now - b.before) - Math.abs(a.now - a.before));
  return largest && largest.now !== largest.before ? largest : null;
}

/** Renders one sentence about the biggest change in the number of requests. `href` links to the details. */
export const BiggestChange = ({ move, name, href }: { move: Move; name: string; href: string }) => (
  <p class="moved">
    Biggest change: <a href={href}>{name}</a>, {integer(move.now)} requests, {integer(Math.abs(move.now - move.before))}{" "}
    {move.now > move.before ? "more" : "fewer"} than in the 30 days before.
  </p>
);
