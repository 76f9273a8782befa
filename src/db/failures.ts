/** What an error says, and what it was caused by, for the log too. Drizzle's own messages are left out: they quote the statement, with what a client sent. */
export const messagesOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  const seen: string[] = [];
  for (let at: unknown = error; at instanceof Error; at = at.cause) if (!at.message.startsWith("Failed query:")) seen.push(at.message);
  return seen.join("\n");
};

/** Returns the innermost cause of an error, for the log. An outer error may quote data that a client sent. */
export const innermost = (error: unknown): unknown =>
  error instanceof Error && error.cause instanceof Error ? innermost(error.cause) : error;

/** Whether D1 refused a write since it would repeat a unique value. `columns` as SQLite names them: `users.account_id, users.email_key`. */
export const isDuplicate = (error: unknown, columns: string): boolean => messagesOf(error).includes(`UNIQUE constraint failed: ${columns}`);

/** Whether D1 refused a write since it would point at a row that is not there. */
export const isDanglingReference = (error: unknown): boolean => messagesOf(error).includes("FOREIGN KEY constraint failed");

/** Whether D1 refused a write for what was to be written: the same write will be refused again. */
export const isRefusedContent = (error: unknown): boolean =>
  /SQLITE_(?:TOOBIG|CONSTRAINT|MISMATCH)|constraint failed|malformed JSON|too big/.test(messagesOf(error));

/** Whether D1 could not answer, as against having refused a statement. */
export const isStorageFailure = (error: unknown): boolean => {
  const text = messagesOf(error);
  return (
    !/SQLITE_(?:ERROR|TOOBIG|CONSTRAINT|MISMATCH)|constraint failed/.test(text) &&
    /\bD1_(?:ERROR|EXEC_ERROR)\b|D1 DB|Network connection lost|storage operation|database is locked|SQLITE_BUSY/i.test(text)
  );
};
