import { hashOf } from "../hash.ts";
import { keyIdOf, type SigningSecret } from "./key-format.ts";

const mostRemembered = 10_000;

/**
 * Reads secret keys, and remembers what follows from a key itself: whether its tag is ours, and whose it is. It is kept
 * under the hash, never in the clear, and for one set of signing secrets.
 */
export class KeyMemory {
  readonly #signing: readonly SigningSecret[];
  readonly #keyIds = new Map<string, string | null>();

  constructor(signing: readonly SigningSecret[]) {
    this.#signing = signing;
  }

  /** The hash of a secret key and the id of its key, which is null where the key is made up. */
  read(secretKey: string): { secretHash: string; keyId: string | null } {
    const secretHash = hashOf(secretKey);
    let keyId = this.#keyIds.get(secretHash);
    if (keyId === undefined) {
      keyId = keyIdOf(secretKey, this.#signing);
      if (this.#keyIds.size >= mostRemembered) this.#keyIds.clear();
      this.#keyIds.set(secretHash, keyId);
    }
    return { secretHash, keyId };
  }
}
