import { timingSafeEqual } from "node:crypto";
import { hashOf } from "../lib/crypto/hash.ts";

/** The name and hash of an operator token. The Worker does not know the token itself. */
export interface OperatorToken {
  /** The name of the person or program that has the token. The operator audit contains this name. */
  name: string;
  /** The SHA-256 of the token, in hex. */
  tokenHash: string;
}

const form = /^([\w.-]{1,50}):([0-9a-f]{64})$/;

/** Parses `OPERATOR_TOKENS`, a comma-separated list of `name:sha256` pairs. The list may be empty. If a pair is malformed, throws an error. */
export function operatorTokens({ OPERATOR_TOKENS = "" }: { OPERATOR_TOKENS?: string }): OperatorToken[] {
  const parts = OPERATOR_TOKENS.split(",").map((part) => part.trim());
  return parts
    .filter((part) => part !== "")
    .map((part) => {
      const [, name, tokenHash] = form.exec(part) ?? [];
      if (!name || !tokenHash)
        throw new Error("OPERATOR_TOKENS must hold pairs of a name and the SHA-256 of a token in hex: name:<sha256>");
      return { name, tokenHash };
    });
}

export function operatorOf(env: { OPERATOR_TOKENS?: string }, sent: string): OperatorToken | null {
  const hash = Buffer.from(hashOf(sent));
  return operatorTokens(env).find(({ tokenHash }) => timingSafeEqual(Buffer.from(tokenHash), hash)) ?? null;
}
