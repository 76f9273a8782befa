/**
 * Returns the messages of an error and its causes, one per line. Leaves out Drizzle's own messages, because they quote data from clients.
 * The result is therefore safe to log.
 */
export const messagesOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  const seen: string[] = [];
  for (let at: unknown = error; at instanceof Error; at = at.cause) if (!at.message.startsWith("Failed query:")) seen.push(at.message);
  return seen.join("\n");
};

/** Returns the innermost cause of an error, for the log. The outer errors are not logged, because they may quote data that a client sent. */
export const innermost = (error: unknown): unknown =>
  error instanceof Error && error.cause instanceof Error ? innermost(error.cause) : error;

/**
 * Returns whether D1 rejected a write that would duplicate a unique value. `columns`: the unique columns in SQLite's notation, for example
 * `users.account_id, users.email_key`.
 */
export const isDuplicate = (error: unknown, columns: string): boolean => messagesOf(error).includes(`UNIQUE constraint failed: ${columns}`);

/** Returns whether D1 rejected a write because the write refers to a missing row. */
export const isDanglingReference = (error: unknown): boolean => messagesOf(error).includes("FOREIGN KEY constraint failed");

/** Returns whether an error means that D1 was unavailable. Returns false if D1 rejected a statement. */
export const isStorageFailure = (error: unknown): boolean => {
  const text = messagesOf(error);
  return (
    !/SQLITE_(?:ERROR|TOOBIG|CONSTRAINT|MISMATCH)|constraint failed/.test(text) &&
    /\bD1_(?:ERROR|EXEC_ERROR)\b|D1 DB|Network connection lost|storage operation|database is locked|SQLITE_BUSY/i.test(text)
  );
};
