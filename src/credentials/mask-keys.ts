import { brand } from "../lib/settings.ts";
import { maskForms } from "./secret-form.ts";

/**
 * The number of characters to read beyond `maxLength`. With these characters, the function also recognizes a key that is cut at
 * `maxLength`. A key has 61 characters. The margin has eight characters for each of them, because percent-encoding makes a key longer.
 */
const marginLength = 512;

const separator = "(?:%[0-9A-Fa-f]{2}|[^0-9A-Za-z]){1,16}";
const word = "[A-Z]?[a-z]+(?![0-9A-Za-z])";
const further = `(?:[-_][\\w-]*|${separator}(?!${word})[0-9A-Za-z]+)`;

/** The prefixes of signed secrets, the longest first. Keys from before the team chose a prefix have `dvo`. */
const prefixes = [...new Set([...brand.keyPrefixes, "dvo", "svc"])].toSorted((one, other) => other.length - one.length);
/** A prefix of the team can be the end of a usual word, as `sk` is of `task`, so it must begin one. */
const isOfTeam = (prefix: string) => !["dvo", "svc"].includes(prefix);
const anyCase = (prefix: string): string =>
  prefix.replaceAll(/./g, (letter) => (letter === "_" ? separator : /[a-z]/.test(letter) ? `[${letter.toUpperCase()}${letter}]` : letter));

/**
 * Matches an API key, a service token, an operator token, a webhook secret, or a long run of letters and digits. An API key may contain extra characters
 * between its parts and inside its secret part. A run of at least 20 letters and digits may be the whole secret part of a key, or half of
 * the secret part. A plain word ends a key: in `<key>/tasks`, `tasks` is not part of the key.
 */
const suspects = new RegExp(
  `(?<![0-9A-Za-z]{13})(${prefixes.map((prefix) => (isOfTeam(prefix) ? "(?<![0-9A-Za-z])" : "") + anyCase(prefix)).join("|")})${separator}([0-9A-Za-z]{16})[0-9A-Za-z]*${further}*|([Dd][Vv][Oo][Pp])${further}+|(whsec)_[\\w+/=-]+|[0-9A-Za-z]{20,}`,
  "g",
);
const mayHaveSuspects = new RegExp(`${prefixes.map((prefix) => anyCase(prefix.split("_")[0] ?? "")).join("|")}|whsec|%|[0-9A-Za-z]{20}`);
const changesOfKind = /[a-z](?=[A-Z0-9])|[A-Z](?=[a-z0-9])|[0-9](?=[A-Za-z])/g;
const secretLength = 40;

/**
 * Returns whether a run of at least 20 characters looks like the secret part of a key. A secret part contains upper-case and lower-case
 * letters. A secret part also switches between upper case, lower case and digits more often than words do. Hex ids and hashes contain no
 * upper-case letters. The check misses one in 10^9 complete secret parts, and fewer than one in 100 halves of a secret part.
 */
const looksRandom = (run: string): boolean =>
  /[a-z]/.test(run) && /[A-Z]/.test(run) && (run.length >= secretLength || 3 * (run.match(changesOfKind)?.length ?? 0) > run.length);

/**
 * Masks all secrets of this service in a text from a client and returns the first `maxLength` characters. A key is shortened to its public part. A secret
 * part without a public part becomes `***`. The function also finds keys that are percent-encoded, even several times. The run time is proportional to
 * `maxLength` for any input.
 */
export function maskKeys(text: string, maxLength = 2048): string {
  const start = text.slice(0, maxLength + marginLength);
  if (!mayHaveSuspects.test(start)) return cut(start, maxLength);
  const plain = decodeFully(start);
  const masked = plain.replaceAll(suspects, (found, prefix?: string, publicPart?: string, operators?: string, ofWebhook?: string) => {
    if (publicPart !== undefined) return `${prefix?.toLowerCase().replaceAll(/[^0-9a-z]+/g, "_")}_${publicPart}`;
    return operators ?? ofWebhook ?? (looksRandom(found) ? "***" : found);
  });
  return cut(masked === plain ? start : masked, maxLength);
}

/** Cuts a text to `maxLength` characters. Removes an incomplete percent escape at the cut and replaces half of a surrogate pair with U+FFFD. */
const cut = (text: string, maxLength: number): string =>
  text.length <= maxLength
    ? text.toWellFormed()
    : text
        .slice(0, maxLength)
        .replace(/%[0-9A-Fa-f]?$/, "")
        .toWellFormed();

const percent = codeOf("%");
const utf16 = new TextDecoder("utf-16le", { fatal: false, ignoreBOM: true });

/** Maps the two hex digits of a percent escape to a character code. The map contains only `%` and the characters that keys can contain. */
const decodings = new Map(
  Array.from({ length: 128 }, (_, code) => code)
    .filter((code) => /[\w%-]/.test(String.fromCharCode(code)))
    .flatMap((code) => [code.toString(16), code.toString(16).toUpperCase()].map((hex) => [pairOf(codeOf(hex), codeOf(hex, 1)), code])),
);

function codeOf(text: string, at = 0): number {
  return text.charCodeAt(at);
}

function pairOf(first = 0, second = 0): number {
  return first * 2 ** 16 + second;
}

/**
 * Decodes percent escapes of key characters until no such escape is left. One pass is enough, because each decoded character is at the end
 * of the output. After each decoding, only the end of the output is checked again. Each decoding makes the output two characters shorter.
 */
function decodeFully(text: string): string {
  if (!text.includes("%")) return text;
  const codes = new Uint16Array(text.length);
  let length = 0;
  for (let at = 0; at < text.length; at++) {
    codes[length++] = codeOf(text, at);
    while (codes[length - 3] === percent) {
      const decoded = decodings.get(pairOf(codes[length - 2], codes[length - 1]));
      if (decoded === undefined) break;
      length -= 2;
      codes[length - 1] = decoded;
    }
  }
  return utf16.decode(codes.subarray(0, length));
}

/** The maximum length of a secret that the team's customers have, in characters. */
const maxImportedLength = 512;

/**
 * Masks the secrets of this service and of the registered forms that this isolate knows. Returns the first `maxLength` characters. Call this function for
 * every part of a request before you store or log that part, or return it in an error.
 */
export function maskSecrets(text: string, maxLength: number): string {
  const length = maxLength + maxImportedLength;
  const ofOthers = maskKeys(text, length);
  const plain = decodeFully(ofOthers);
  const masked = maskForms(plain, text.length > length);
  return cut(masked === plain ? ofOthers : masked, maxLength);
}

/** The maximum length of a path in logs and error responses, in characters. */
export const maxShownPath = 384;

/** Returns a path in the form of logs and error responses: at most 384 characters, with secrets masked. */
export const maskPath = (path: string): string => maskSecrets(path, maxShownPath);
