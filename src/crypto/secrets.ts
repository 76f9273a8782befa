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
  Object.fromEntries(placesOf(binding).map((place) => [place, namesAt(env, place)]));

function namesAt(env: object, place: string): string[] {
  try {
    return parseSecrets(place, (env as Record<string, string | undefined>)[place] ?? "").map(({ name }) => name);
  } catch {
    return [];
  }
}

/** Returns which of the bindings are empty or malformed: of each given one, and of its second one. A deploy fills them all. */
export const placesWithout = (env: object, bindings: readonly string[]): string[] =>
  bindings.flatMap(placesOf).filter((place) => namesAt(env, place).length === 0);

/** Returns the names of the secrets in both bindings, the newest first. Unlike `secretsIn`, does not throw if the Worker has none. */
export const namesByAge = (env: object, binding: string): string[] =>
  Object.values(namesIn(env, binding))
    .toSorted(([one = ""], [other = ""]) => (one < other ? 1 : -1))
    .flat();

/**
 * Returns the secrets of a binding and of its second binding (`..._2`). One of the two bindings may be missing. Cloudflare does not let
 * anyone read a secret back. A rotation therefore replaces one binding while the other binding stays in use. The bindings are ordered by
 * the name of their first secret (0-9 A-Z a-z). The binding with the later name comes first.
 */
export function secretsIn(env: object, binding: string): NamedSecrets {
  const [first, second] = placesOf(binding).map((place) => [place, (env as Record<string, string | undefined>)[place]] as const);
  if (!second?.[1]) return parseSecrets(binding, first?.[1] ?? "");
  if (!first?.[1]) return parseSecrets(...(second as [string, string]));
  const [one, other] = [parseSecrets(...(first as [string, string])), parseSecrets(...(second as [string, string]))];
  return other[0].name > one[0].name ? [...other, ...one] : [...one, ...other];
}
