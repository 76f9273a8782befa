/** A piece waits for at most this number of turns before it runs. Decisions that never pause therefore delay a page, but do not stop it. */
const maxTurns = 8;

let deciding = 0;
/** The number of times that a decision has begun or ended, or that a piece has begun. */
let steps = 0;

/** Notes that a decision about a request begins. Pages, exports and searches let it go first. */
export function beginDecision(): void {
  deciding++;
  steps++;
}

export function endDecision(): void {
  if (deciding > 0) deciding--;
  steps++;
}

/**
 * Lets other requests of the isolate run before the next piece of a page, an export or a search. Returns when no decision runs and no other piece has begun
 * in this turn of the event loop, or after eight turns. A resolved promise is no turn, because it runs before any other request.
 */
export async function giveWay(): Promise<void> {
  const first = steps;
  for (let turn = 0; turn < maxTurns; turn++) {
    const before = steps;
    await new Promise((resolve) => setTimeout(resolve, 0));
    if (deciding === 0 && steps === before) break;
  }
  // The platform may have ended the requests of these decisions, or their guards are slow.
  if (steps === first) deciding = 0;
  steps++;
}

const linesAtOnce = 1000;

/** Joins the lines of rows. Formats 1,000 rows in one piece, and gives way before each piece. */
export async function linesOf<Row>(rows: readonly Row[], lineOf: (row: Row) => string): Promise<string> {
  let lines = "";
  for (const [at, row] of rows.entries()) {
    if (at % linesAtOnce === 0) await giveWay();
    lines += lineOf(row);
  }
  return lines;
}
