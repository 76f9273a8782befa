import { Document, visit } from "yaml";

/**
 * For `JSON.stringify`: writes the patterns of a document without `\uXXXX`, which the engines of Go and Rust do not know. Code points up to U+00FF become
 * `\xNN`, and all others the characters themselves.
 */
export const portable = (name: string, value: unknown): unknown =>
  name === "pattern" && typeof value === "string"
    ? value.replaceAll(/\\u([0-9a-f]{4})/gi, (_, hex: string) =>
        hex.startsWith("00") ? `\\x${hex.slice(2)}` : String.fromCharCode(Number.parseInt(hex, 16)),
      )
    : value;

/** Escapes all characters beyond ASCII in JSON or in double quotes of YAML. Some tools refuse invisible characters, or read them as the end of a line. */
const inAscii = (text: string): string =>
  text.replaceAll(/[^\n\x20-\x7e]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

export const asciiJson = (document: object, indent?: number): string => `${inAscii(JSON.stringify(document, null, indent))}\n`;

export function asciiYaml(content: object): string {
  const document = new Document(content, { aliasDuplicateObjects: false });
  visit(document, {
    Scalar(_, node) {
      if (typeof node.value === "string" && /[^\n\x20-\x7e]/.test(node.value)) node.type = "QUOTE_DOUBLE";
    },
  });
  return inAscii(document.toString());
}
