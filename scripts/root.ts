import { join } from "node:path";

/** The path of the project's root folder. */
export const root = join(import.meta.dirname, "..");
