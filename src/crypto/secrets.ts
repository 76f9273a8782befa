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

/** Returns the names of the secrets in a binding and in its second binding (`..._2`). */
export const namesIn = (env: object, binding: string): Record<string, string[]> =>
  Object.fromEntries(
    placesOf(binding).map((place) => {
      const text = (env as Record<string, string | undefined>)[place];
      return [place, text ? parseSecrets(place, text).map(({ name }) => name) : []];
    }),
  );

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
