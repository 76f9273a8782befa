/** How a command ends. */
export const exitCodes = { done: 0, failed: 1, misuse: 2, unreachable: 3, refused: 4 } as const;

/** A command that could not do what it was asked: its message is all there is to say. */
export class CommandError extends Error {
  readonly exitCode: number;
  /** Whether the same call may succeed in a moment. */
  readonly isTransient: boolean;
  constructor(how: keyof typeof exitCodes, message: string, { isTransient = false } = {}) {
    super(message);
    this.isTransient = isTransient;
    this.exitCode = exitCodes[how];
  }
}
