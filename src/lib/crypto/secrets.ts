/** A secret of the service. A value that the service creates with the secret contains the secret's name. */
export interface NamedSecret {
  name: string;
  secret: string;
}

/** One or more secrets. The service creates new values with the first secret. Existing values may use any of the secrets. */
export type NamedSecrets = readonly [NamedSecret, ...NamedSecret[]];

/** Parses the comma-separated `name:secret` pairs of a binding. Throws if the text is empty or a pair is malformed. */
export function parseSecrets(binding: string, text: string): NamedSecrets {
  const [first, ...others] = text.split(",").map((pair) => {
    const [, name, secret] = /^\s*([0-9A-Za-z]):(\S{32,})\s*$/.exec(pair) ?? [];
    if (!name || !secret)
      throw new Error(`${binding} must hold pairs of one base62 character and a secret of 32 characters or more: a:<secret>`);
    return { name, secret };
  });
  if (!first) throw new Error(`${binding} is empty`);
  return [first, ...others];
}

const placesOf = (binding: string) => [binding, `${binding}_2`] as const;

/** Returns the names of the secrets in a binding and in its second binding (`..._2`). A binding that is empty or malformed has none. */
export const namesIn = (env: object, binding: string): Record<string, string[]> =>
  Object.fromEntries(placesOf(binding).map((place) => [place, readable(env, place).map(({ name }) => name)]));

const textAt = (env: object, place: string): string => (env as Record<string, string | undefined>)[place] ?? "";

/** Returns the secrets in one binding, or none if it is empty or malformed. */
function readable(env: object, place: string): readonly NamedSecret[] {
  try {
    return parseSecrets(place, textAt(env, place));
  } catch {
    return [];
  }
}

/** Returns which of these bindings, and of their second ones, are empty or malformed. A deploy fills them all, so their secrets were lost. */
export const placesWithout = (env: object, bindings: readonly string[]): string[] =>
  bindings.flatMap(placesOf).filter((place) => readable(env, place).length === 0);

/** Returns the names of the secrets in both bindings, the newest first. Unlike `secretsIn`, does not throw if the Worker has none. */
export const namesByAge = (env: object, binding: string): string[] => byAge(env, binding).map(({ name }) => name);

function byAge(env: object, binding: string): NamedSecret[] {
  const [first = [], second = []] = placesOf(binding).map((place) => readable(env, place));
  return (second[0]?.name ?? "") > (first[0]?.name ?? "") ? [...second, ...first] : [...first, ...second];
}

/**
 * Returns the secrets of a binding and of its second binding (`..._2`). Cloudflare does not let anyone read a secret back. A rotation therefore replaces one
 * binding while the other binding stays in use. The bindings are ordered by the name of their first secret (0-9 A-Z a-z). The binding with the later name
 * comes first. One of the two bindings may be empty or malformed: what needs its secret does not work, and everything else does. Throws if both are.
 */
export function secretsIn(env: object, binding: string): NamedSecrets {
  const [first, ...others] = byAge(env, binding);
  return first ? [first, ...others] : parseSecrets(binding, textAt(env, binding));
}
