/**
 * Returns the members of an object whose values differ from those of another object. Values are compared as JSON text, so the order of lists matters.
 */
export const differing = <Members extends object>(members: Members, other: object): Partial<Members> =>
  Object.fromEntries(
    Object.entries(members).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(other[name as keyof typeof other])),
  ) as Partial<Members>;

/** Returns whether an object has no members. */
export const isEmpty = (members: object): boolean => Object.keys(members).length === 0;
