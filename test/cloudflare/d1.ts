// The rules by which D1 splits the text of `wrangler d1 migrations apply --remote` into statements. For the local runtime, wrangler splits
// the text itself and follows different rules. A migration can therefore succeed locally, but fail on Cloudflare with "incomplete input".

/**
 * Splits a migration at every semicolon outside triggers, even in strings and comments. A trigger stays in one piece only if the trigger is
 * on one line. A trigger ends at the first END after an uppercase BEGIN. These rules are the strictest that the issues
 * cloudflare/workers-sdk#4998, #14991, #15314 and #15690 report for D1.
 */
export function splitAsD1(sql: string): string[] {
  const statement = /CREATE TRIGGER [^;\n\r]* BEGIN [^\n\r]*?\bEND\b[^;\n\r]*;|[^;]+;?/y;
  const found: string[] = [];
  const text = sql.replaceAll(/^--> statement-breakpoint$|(?<=;)--> statement-breakpoint$/gm, "");
  for (statement.lastIndex = 0; statement.lastIndex < text.length; ) {
    // The regular expression matches a trigger only from the first word of the trigger on. White space before each statement is therefore
    // skipped.
    statement.lastIndex += text.slice(statement.lastIndex).search(/\S|$/);
    const [each] = statement.exec(text) ?? [];
    if (each === undefined) break;
    found.push(each.replace(/;$/, "").trim());
  }
  return found.filter((each) => each !== "");
}
