import { timingSafeEqual } from "node:crypto";
import { hashOf } from "../crypto/hash.ts";

/** The token of an operator, as the Worker knows it. */
export interface OperatorToken {
  /** Who or what it was given to: what the operator's audit says. */
  name: string;
  /** SHA-256, hex. */
  tokenHash: string;
}

const form = /^([\w.-]{1,50}):([0-9a-f]{64})$/;

/** The tokens of OPERATOR_TOKENS: `name:sha256` parted by commas; none where it is empty. Throws where it holds anything else. */
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

/** Which of the tokens somebody has sent; null where it is none of them. */
export function operatorOf(env: { OPERATOR_TOKENS?: string }, sent: string): OperatorToken | null {
  const hash = Buffer.from(hashOf(sent));
  return operatorTokens(env).find(({ tokenHash }) => timingSafeEqual(Buffer.from(tokenHash), hash)) ?? null;
}
