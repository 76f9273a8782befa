/** A secret of the service itself, with the name by which what was made with it says so. */
export interface NamedSecret {
  name: string;
  secret: string;
}

/** At least one: the first makes what is new, all of them read. */
export type NamedSecrets = readonly [NamedSecret, ...NamedSecret[]];

/** Reads `name:secret` pairs parted by commas from the binding `binding`. Throws where none is usable. */
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

/** The names of the secrets in each place of a binding. */
export const namesIn = (env: object, binding: string): Record<string, string[]> =>
  Object.fromEntries(
    placesOf(binding).map((place) => {
      const text = (env as Record<string, string | undefined>)[place];
      return [place, text ? parseSecrets(place, text).map(({ name }) => name) : []];
    }),
  );

/**
 * The secrets of a binding and of its second place (`..._2`), which may be missing. Nobody can read a secret back from Cloudflare, so the one
 * place is replaced while the other goes on. That with the later name, in the order of 0-9 A-Z a-z, comes first.
 */
export function secretsIn(env: object, binding: string): NamedSecrets {
  const [first, second] = placesOf(binding).map((place) => [place, (env as Record<string, string | undefined>)[place]] as const);
  if (!second?.[1]) return parseSecrets(binding, first?.[1] ?? "");
  if (!first?.[1]) return parseSecrets(...(second as [string, string]));
  const [one, other] = [parseSecrets(...(first as [string, string])), parseSecrets(...(second as [string, string]))];
  return other[0].name > one[0].name ? [...other, ...one] : [...one, ...other];
}
