export const fence = (language: string, code: string) => `\`\`\`${language}\n${code}\n\`\`\``;

export const jsonFence = (value: unknown) => fence("json", JSON.stringify(value, null, 2));

/** Escapes a text for use in a cell of a Markdown table. */
export const cell = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");

/** Returns a table in Markdown, or an empty string if there are no rows. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return "";
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(" | ")} |`;
  return [line(heads), line(heads.map(() => "---")), ...rows.map(line)].join("\n");
}

/** Joins the parts of a page with blank lines between them. Skips empty parts. */
export const paragraphs = (...parts: readonly (string | undefined | false)[]) =>
  parts.filter((part): part is string => typeof part === "string" && part !== "").join("\n\n");

export const operationPath = (operationId: string) => `/docs/api/${operationId}`;
export const errorPath = (code: string) => `/docs/errors/${code}`;
export const eventPath = (type: string) => `/docs/events/${type}`;
export const schemaPath = (name: string) => `/docs/schemas/${name}`;
