import { createHash } from "node:crypto";

/** SHA-256 of a text (as UTF-8) or of bytes, in hex. A secret key has 190 random bits, so nothing slower is needed for one. */
export const hashOf = (content: string | Uint8Array): string => createHash("sha256").update(content).digest("hex");
