import { hashOf } from "../crypto/hash.ts";
import { keyIdOf, type SigningSecret, statedIdOf } from "./key-format.ts";

const maxRemembered = 10_000;

/**
 * Tells genuine keys from made-up ones, and remembers the genuine, which come again: under their hash, never in the clear, and for
 * one set of signing secrets. Made-up ones are not remembered: a flood of them never repeats one.
 */
export class VerifiedKeys {
  readonly #signing: readonly SigningSecret[];
  /** The hashes of the genuine secret keys of each key. */
  readonly #hashes = new Map<string, string[]>();
  #size = 0;

  constructor(signing: readonly SigningSecret[]) {
    this.#signing = signing;
  }

  /** The hash of a secret key and the id of its key; null where it is made up. */
  identify(secretKey: string): { secretHash: string; keyId: string } | null {
    // A made-up key has an id that no other has, so that it is not hashed.
    const known = this.#hashes.get(statedIdOf(secretKey));
    const knownHash = known && hashOf(secretKey);
    if (knownHash !== undefined && known?.includes(knownHash)) return { secretHash: knownHash, keyId: statedIdOf(secretKey) };
    const keyId = keyIdOf(secretKey, this.#signing);
    if (keyId === null) return null;
    const secretHash = knownHash ?? hashOf(secretKey);
    this.#remember(keyId, secretHash);
    return { secretHash, keyId };
  }

  #remember(keyId: string, secretHash: string): void {
    if (this.#size >= maxRemembered) {
      this.#hashes.clear();
      this.#size = 0;
    }
    this.#hashes.set(keyId, [...(this.#hashes.get(keyId) ?? []), secretHash]);
    this.#size++;
  }
}
