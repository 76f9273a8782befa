type Defined<Members> = { [Name in keyof Members]: Exclude<Members[Name], undefined> };

/** Returns a copy of an object without the members that are undefined. */
export const omitUndefined = <Members extends object>(members: Members) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Defined<Members>;
