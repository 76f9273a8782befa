/**
 * For `JSON.stringify`: writes the patterns of a document with the characters themselves in place of `\uXXXX`, which the engines of Go and Rust do not know.
 */
export const portable = (name: string, value: unknown): unknown =>
  name === "pattern" && typeof value === "string"
    ? value.replaceAll(/\\u([0-9a-f]{4})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    : value;
