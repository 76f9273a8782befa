// The forms of the secrets that the team's customers already have. The team registers them, and each isolate remembers them.

/**
 * A form of secrets. `prefix`: the text with which each of them begins. `minLength` and `maxLength`: the lengths of the shortest and the longest, with the
 * prefix, in characters.
 */
export interface SecretForm {
  prefix: string;
  minLength: number;
  maxLength: number;
  /** The characters after the prefix: the name of an alphabet, or all characters as a text. */
  alphabet: string;
}

const digits = "0123456789";
const lower = "abcdefghijklmnopqrstuvwxyz";
const upper = lower.toUpperCase();
/** The alphabets with a name. Every other alphabet is a list of its characters. */
const namedAlphabets: Record<string, string> = {
  hex: `${digits}abcdef`,
  base58: `${digits}${lower}${upper}`.replaceAll(/[0OIl]/g, ""),
  base62: digits + lower + upper,
  base64: `${digits}${lower}${upper}+/=`,
  base64url: `${digits}${lower}${upper}-_`,
};
/** Characters that separate the parts of a secret. They may occur in text of every form. */
const separators = "_.|-";

/** Returns whether a text is the name of an alphabet, or a list of characters. A list of fewer than ten is a name that is not known. */
export const isAlphabet = (text: string): boolean => Object.hasOwn(namedAlphabets, text) || new Set(text).size >= 10;

/** Returns all characters that a text of a form may have after its prefix. */
export const charactersOf = ({ alphabet }: Pick<SecretForm, "alphabet">): string =>
  (Object.hasOwn(namedAlphabets, alphabet) ? (namedAlphabets[alphabet] ?? "") : alphabet) + separators;

/** Returns whether a text has a form: its prefix, a length within the bounds, and after the prefix only characters of the alphabet and separators. */
export function hasForm(text: string, form: SecretForm): boolean {
  const { prefix, minLength, maxLength } = form;
  if (text.length < minLength || text.length > maxLength || !text.startsWith(prefix)) return false;
  return hasOnly(text.slice(prefix.length), charactersOf(form));
}

/** Text of a form can lack this number of characters, for example padding or the hyphens of a UUID. */
const maxLeftOut = 6;
const noLetterOrDigit = /[^0-9a-z]/g;

/** Returns where a run ends that begins at `from`: at a character that is not in `taken`, or after `wanted` of them. `isSkipped`: characters that do not count. */
function endOfRun(text: string, from: number, wanted: number, taken: ReadonlySet<string>, isSkipped: RegExp | null) {
  let [at, count] = [from, 0];
  for (; at < text.length && count < wanted; at++) {
    const character = text.charAt(at);
    if (taken.has(character)) count++;
    else if (!isSkipped?.test(character)) break;
  }
  return { at, isLong: count >= wanted };
}

/**
 * Returns whether a text holds text of a form at any place: the prefix, and then as many of its characters as the shortest secret has. About as many letters and
 * digits are enough, because a server may skip other characters, or add them. Upper and lower case are the same. Longer text counts, too, because a server may
 * read a part of it. Reads each character a few times at most, so that no text takes long.
 */
export function holdsForm(text: string, form: SecretForm): boolean {
  const [lower, prefix] = [text.toLowerCase(), form.prefix.toLowerCase()];
  const characters = charactersOf(form).toLowerCase();
  const letters = characters.replaceAll(noLetterOrDigit, "");
  const least = form.minLength - prefix.length;
  const leastLetters = Math.max(8, Math.floor((least * letters.length) / (characters.length - separators.length)) - maxLeftOut);
  const runs = [
    { wanted: least, taken: new Set(characters), isSkipped: null, end: -1 },
    { wanted: leastLetters, taken: new Set(letters), isSkipped: /[^0-9a-z]/, end: -1 },
  ];
  for (let at = lower.indexOf(prefix); at >= 0 && at < lower.length; at = lower.indexOf(prefix, at + 1)) {
    const from = at + prefix.length;
    for (const run of runs) {
      // A run that begins within one that was too short ends at the same character.
      if (from <= run.end) continue;
      const { at: end, isLong } = endOfRun(lower, from, run.wanted, run.taken, run.isSkipped);
      if (isLong) return true;
      run.end = end;
    }
  }
  return false;
}

const hasOnly = (text: string, characters: string): boolean => [...text].every((character) => characters.includes(character));

/** A form with a shorter prefix could have words of the team's own paths, so its text is not masked. */
const minMaskedPrefix = 4;
/** The characters that end a word of a path, a query or a header, unless a prefix contains them. */
const delimiters = "/?&=#,;:\"'()<>";
/** The characters that a secret may contain in percent-encoded form. */
const encodable = "+./=|";

let masked: { forms: readonly SecretForm[]; words: RegExp } = { forms: [], words: /(?!)/g };

/** Makes this isolate mask text of these forms. */
export function setMaskedForms(forms: readonly SecretForm[]): void {
  const long = forms.filter(({ prefix }) => prefix.length >= minMaskedPrefix);
  const inPrefixes = [...new Set(long.map(({ prefix }) => prefix).join(""))];
  const ending = [...delimiters].filter((character) => !inPrefixes.includes(character)).join("");
  const escapes = [...encodable, ...inPrefixes].map((character) => character.charCodeAt(0).toString(16).padStart(2, "0"));
  masked = { forms: long, words: new RegExp(`(?:%(?:${escapes.join("|")})|[^\\s%${ending}])+`, "gi") };
}

const decoded = (word: string): string =>
  word.replaceAll(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

/** Base64 text can lose its padding at the end of a word. */
const maxPadding = 2;

/**
 * Masks secrets of the forms that this isolate knows. Only the prefix of a secret is left. `isCut`: whether the text ends in the middle, so that its last word
 * may be the beginning of a secret.
 */
export function maskForms(text: string, isCut: boolean): string {
  if (masked.forms.length === 0) return text;
  return text.replaceAll(masked.words, (word, at: number) => {
    const plain = decoded(word);
    const isLast = isCut && at + word.length === text.length;
    for (const form of masked.forms) {
      const start = startOf(plain, form);
      const rest = plain.slice(start + form.prefix.length);
      const isLong = isLast || form.prefix.length + rest.length >= form.minLength - maxPadding;
      if (start >= 0 && isLong && hasOnly(rest, charactersOf(form))) return `${plain.slice(0, start + form.prefix.length)}***`;
    }
    return word;
  });
}

/** Returns where a secret begins in a word, or -1. Only a prefix that ends with a separator is also found inside a word, as in `bot<secret>`. */
const startOf = (word: string, { prefix }: SecretForm): number =>
  /[0-9A-Za-z]$/.test(prefix) ? (word.startsWith(prefix) ? 0 : -1) : word.indexOf(prefix);
