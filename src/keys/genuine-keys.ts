import { hashOf } from "../hash.ts";
import { keyIdOf, type SigningSecret } from "./key-format.ts";

const mostRemembered = 10_000;

/**
 * Tells genuine keys from made-up ones, and remembers the genuine, which come again: under their hash, never in the clear, and for
 * one set of signing secrets. Made-up ones are not remembered: a flood of them never repeats one.
 */
export class GenuineKeys {
  readonly #signing: readonly SigningSecret[];
  readonly #keyIds = new Map<string, string>();

  constructor(signing: readonly SigningSecret[]) {
    this.#signing = signing;
  }

  /** The hash of a secret key and the id of its key; null where it is made up. */
  identify(secretKey: string): { secretHash: string; keyId: string } | null {
    const secretHash = hashOf(secretKey);
    const known = this.#keyIds.get(secretHash);
    if (known !== undefined) return { secretHash, keyId: known };
    const keyId = keyIdOf(secretKey, this.#signing);
    if (keyId === null) return null;
    if (this.#keyIds.size >= mostRemembered) this.#keyIds.clear();
    this.#keyIds.set(secretHash, keyId);
    return { secretHash, keyId };
  }
}
