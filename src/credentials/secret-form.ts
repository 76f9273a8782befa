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

const charactersOf = ({ alphabet }: SecretForm): string =>
  (Object.hasOwn(namedAlphabets, alphabet) ? (namedAlphabets[alphabet] ?? "") : alphabet) + separators;

/** Returns whether a text has a form: its prefix, a length within the bounds, and after the prefix only characters of the alphabet and separators. */
export function hasForm(text: string, form: SecretForm): boolean {
  const { prefix, minLength, maxLength } = form;
  if (text.length < minLength || text.length > maxLength || !text.startsWith(prefix)) return false;
  const allowed = charactersOf(form);
  for (let at = prefix.length; at < text.length; at++) if (!allowed.includes(text[at] ?? "")) return false;
  return true;
}

/** The forms that this isolate knows, and the pattern of the text that it masks. */
let remembered: { forms: readonly SecretForm[]; pattern: RegExp | null } = { forms: [], pattern: null };

/** A form with a shorter prefix could have the ids and the words of the team's own paths, so its text is not masked. */
const minMaskedPrefix = 3;

/** Makes this isolate recognize and mask text of these forms. */
export function rememberForms(forms: readonly SecretForm[]): void {
  const masked = forms.filter(({ prefix }) => prefix.length >= minMaskedPrefix).map((form) => `(${escaped(form.prefix)})${restOf(form)}`);
  remembered = { forms, pattern: masked.length === 0 ? null : new RegExp(`(?<![0-9A-Za-z])(?:${masked.join("|")})`, "g") };
}

/** Matches what follows the prefix of a form. Text that is longer than the form allows is masked, too. */
const restOf = (form: SecretForm): string => `[${escaped(charactersOf(form))}]{${Math.max(1, form.minLength - form.prefix.length)},}`;

const escaped = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");

/** Returns whether a text has a form that this isolate knows. */
export const hasRememberedForm = (text: string): boolean => remembered.forms.some((form) => hasForm(text, form));

/** Masks secrets of the forms that this isolate knows. What is left of a secret is its prefix. */
export const maskForms = (text: string): string =>
  remembered.pattern === null
    ? text
    : text.replaceAll(remembered.pattern, (_, ...groups: unknown[]) => `${groups.find((group) => typeof group === "string")}***`);
