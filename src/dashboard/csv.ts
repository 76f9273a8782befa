/** What a spreadsheet may take for a formula: one of these characters, also small or full-width, after any invisible characters, marks and blanks. */
const formula = /^[\p{C}\p{Z}\p{M}]*[=+\-@\t\r\n\u2212\ufe62\ufe63\ufe66\ufe6b\uff1d\uff0b\uff0d\uff20]/u;

/** A cell as RFC 4180 has it. What a spreadsheet may take for a formula gets a quote before it. */
function cell(value: string | number | null): string {
  if (value === null) return "";
  const text = typeof value === "string" && formula.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A table with a line of names, its lines ended as RFC 4180 asks. */
export const csvOf = (columns: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string =>
  [columns, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
