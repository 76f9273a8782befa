/**
 * Returns the members of the first object that do not have the same value in the second object. Values are compared as JSON text, so the
 * order of list items matters.
 */
export const differing = <Members extends object>(members: Members, other: object): Partial<Members> =>
  Object.fromEntries(
    Object.entries(members).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(other[name as keyof typeof other])),
  ) as Partial<Members>;

export const isEmpty = (members: object): boolean => Object.keys(members).length === 0;
