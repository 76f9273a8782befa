/**
 * Returns the canonical JSON of a value. Equal values have the same canonical JSON. The canonical JSON sorts members by name, contains no
 * white space, and writes each number in only one form.
 */
export const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`).join(",")}}`;
};

/** Returns the canonical JSON of a UTF-8 body. Returns null if the body is not valid JSON. */
export function canonicalJsonOf(bytes: Uint8Array): string | null {
  try {
    return canonicalJson(JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes)));
  } catch {
    return null;
  }
}
