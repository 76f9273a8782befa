/**
 * Works on the items of several groups, and runs at most `limit` pieces of work in total. The groups take turns. Each turn runs one piece of the group's first
 * item. `piece` returns the item with the work that is left, or null if the item is done. Returns the number of pieces that ran.
 */
export async function inTurns<Item>(
  groups: Iterable<readonly Item[]>,
  limit: number,
  piece: (item: Item) => Promise<Item | null>,
): Promise<number> {
  const turns = [...groups];
  let pieces = 0;
  for (; pieces < limit; pieces++) {
    const [item, ...others] = turns.shift() ?? [];
    if (item === undefined) break;
    const next = await piece(item);
    const left = next === null ? others : [next, ...others];
    if (left.length > 0) turns.push(left);
  }
  return pieces;
}
