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

const charactersOf = ({ alphabet }: Pick<SecretForm, "alphabet">): string =>
  (Object.hasOwn(namedAlphabets, alphabet) ? (namedAlphabets[alphabet] ?? "") : alphabet) + separators;

/** Returns whether a text has a form: its prefix, a length within the bounds, and after the prefix only characters of the alphabet and separators. */
export function hasForm(text: string, form: SecretForm): boolean {
  const { prefix, minLength, maxLength } = form;
  if (text.length < minLength || text.length > maxLength || !text.startsWith(prefix)) return false;
  return hasOnly(text.slice(prefix.length), charactersOf(form));
}

const hasOnly = (text: string, characters: string): boolean => [...text].every((character) => characters.includes(character));

/** A form with a shorter prefix could have words of the team's own paths, so its text is not masked. */
const minMaskedPrefix = 4;
let masked: readonly SecretForm[] = [];

/** Makes this isolate mask text of these forms. */
export function setMaskedForms(forms: readonly SecretForm[]): void {
  masked = forms.filter(({ prefix }) => prefix.length >= minMaskedPrefix);
}

/** Matches a word of a path, a query or a header. In a word, the characters `+ . / = |` may be percent-encoded. */
const words = /(?:%(?:2[BbEeFf]|3[Dd]|7[Cc])|[^\s/?&=#,;:"'()<>%])+/g;
const decoded = (word: string): string =>
  word.replaceAll(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

/** Base64 text can lose its padding at the end of a word. */
const maxPadding = 2;

/**
 * Masks secrets of the forms that this isolate knows. Only the prefix of a secret is left. `isCut`: whether the text ends in the middle, so that its last word
 * may be the beginning of a secret.
 */
export function maskForms(text: string, isCut: boolean): string {
  if (masked.length === 0) return text;
  return text.replaceAll(words, (word, at: number) => {
    const plain = decoded(word);
    const isLast = isCut && at + word.length === text.length;
    const form = masked.find(
      ({ prefix, minLength, ...form }) =>
        plain.startsWith(prefix) &&
        (isLast || plain.length >= minLength - maxPadding) &&
        hasOnly(plain.slice(prefix.length), charactersOf(form)),
    );
    return form ? `${form.prefix}***` : word;
  });
}
