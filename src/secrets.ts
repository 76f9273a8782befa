/** A secret of the service itself, with the name by which what was made with it says so. */
export interface NamedSecret {
  name: string;
  secret: string;
}

/** Reads `name:secret` pairs parted by commas from the binding `binding`. The first makes what is new, all of them read. Throws where none is usable. */
export function parseSecrets(binding: string, text: string): [NamedSecret, ...NamedSecret[]] {
  const [first, ...others] = text.split(",").map((pair) => {
    const [, name, secret] = /^\s*([0-9A-Za-z]):(\S{32,})\s*$/.exec(pair) ?? [];
    if (!name || !secret)
      throw new Error(`${binding} must hold pairs of one base62 character and a secret of 32 characters or more: a:<secret>`);
    return { name, secret };
  });
  if (!first) throw new Error(`${binding} is empty`);
  return [first, ...others];
}
