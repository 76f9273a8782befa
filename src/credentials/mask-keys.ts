/** Reads so much more than is stored, so that a key across the cut is seen whole. A key has 61 characters, and repeated encoding makes each up to 9 long. */
const marginLength = 512;

const separator = "(?:%[0-9A-Fa-f]{2}|[^0-9A-Za-z]){1,16}";
const word = "[A-Z]?[a-z]+(?![0-9A-Za-z])";
const further = `(?:[-_][\\w-]*|${separator}(?!${word})[0-9A-Za-z]+)`;

/**
 * What may be a secret: a key, with any characters between its parts and inside its secret part; the token of an operator; the secret of a
 * webhook. So may a run of characters that could be the secret part of a key, or half of it. A word ends a key: in `<key>/tasks` it is no part
 * of it.
 */
const suspects = new RegExp(
  `(?<![0-9A-Za-z]{13})[Dd][Vv][Oo]${separator}([0-9A-Za-z]{16})[0-9A-Za-z]*${further}*|([Dd][Vv][Oo][Pp])${further}+|(whsec)_[\\w+/=-]+|[0-9A-Za-z]{20,}`,
  "g",
);
const mayHaveSuspects = /[Dd][Vv][Oo]|whsec|%|[0-9A-Za-z]{20}/;
const changesOfKind = /[a-z](?=[A-Z0-9])|[A-Z](?=[a-z0-9])|[0-9](?=[A-Za-z])/g;
const secretLength = 40;

/**
 * Whether a run of 20 characters or more has the shape of a secret part: capitals and small letters, which change too often for words. The hex of ids
 * and hashes has no capitals. Of a whole secret part it misses one in 10^9, of half of one less than one in a hundred.
 */
const looksRandom = (run: string): boolean =>
  /[a-z]/.test(run) && /[A-Z]/.test(run) && (run.length >= secretLength || 3 * (run.match(changesOfKind)?.length ?? 0) > run.length);

/**
 * The first `maxLength` characters of a text that a client sent, with each secret key cut to its public part and each secret part without one masked.
 * Every part of a request that is stored, logged or repeated goes through here. The keys may be percent-encoded, also more than once. Takes time in
 * proportion to `maxLength`, for any input.
 */
export function maskKeys(text: string, maxLength = 2048): string {
  const start = text.slice(0, maxLength + marginLength);
  if (!mayHaveSuspects.test(start)) return cut(start, maxLength);
  const plain = decodeFully(start);
  const masked = plain.replaceAll(suspects, (found, publicPart?: string, operators?: string, ofWebhook?: string) => {
    if (publicPart !== undefined) return `dvo_${publicPart}`;
    return operators ?? ofWebhook ?? (looksRandom(found) ? "***" : found);
  });
  return cut(masked === plain ? start : masked, maxLength);
}

/** Without half of a character, or of an encoded one, at its end. */
const cut = (text: string, maxLength: number): string =>
  text.length <= maxLength
    ? text.toWellFormed()
    : text
        .slice(0, maxLength)
        .replace(/%[0-9A-Fa-f]?$/, "")
        .toWellFormed();

const percent = codeOf("%");
const utf16 = new TextDecoder("utf-16le", { fatal: false, ignoreBOM: true });

/** The characters of keys, and what encodes them, by the two that stand for each behind a `%`. */
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
 * Decodes what may be in a key until nothing of it is encoded. One pass: what is decoded is at the end of what has been read, so only the end is
 * looked at again, and each decoding makes it two characters shorter.
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
