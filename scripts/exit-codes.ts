/** The exit codes of all commands. */
export const exitCodes = { done: 0, failed: 1, misuse: 2, unreachable: 3, refused: 4 } as const;

/** An expected failure of a command. The command then prints only the message, without a stack trace. */
export class CommandError extends Error {
  readonly exitCode: number;
  /** Whether a second attempt a moment later may succeed. */
  readonly isTransient: boolean;
  constructor(how: keyof typeof exitCodes, message: string, { isTransient = false } = {}) {
    super(message);
    this.isTransient = isTransient;
    this.exitCode = exitCodes[how];
  }
}
