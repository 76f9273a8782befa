export type Random = () => number;

/** Returns a generator of pseudorandom numbers from 0 to 1 (mulberry32). The same seed always gives the same numbers. */
export function randomFrom(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const pick = <Item>(random: Random, items: readonly Item[]): Item => items[Math.floor(random() * items.length)] as Item;

/** Picks an item at random. The second element of each pair is the weight of the item. */
export function weighted<Item>(random: Random, items: readonly (readonly [Item, number])[]): Item {
  let rest = random() * items.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [item, weight] of items) {
    rest -= weight;
    if (rest < 0) return item;
  }
  return items[0]?.[0] as Item;
}
