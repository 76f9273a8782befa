/** Returns the origins in a comma-separated list. */
export const originsIn = (text: string): string[] =>
  text.split(",").flatMap((origin) => (origin.trim() === "" ? [] : [new URL(origin.trim()).origin]));
