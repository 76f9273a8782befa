/** The exit codes of all commands. */
export const exitCodes = { done: 0, failed: 1, misuse: 2, unreachable: 3, refused: 4 } as const;

/** An expected failure of a command. Only the message is printed, without a stack trace. */
export class CommandError extends Error {
  readonly exitCode: number;
  /** Whether the same call may succeed when it is repeated a moment later. */
  readonly isTransient: boolean;
  constructor(how: keyof typeof exitCodes, message: string, { isTransient = false } = {}) {
    super(message);
    this.isTransient = isTransient;
    this.exitCode = exitCodes[how];
  }
}
