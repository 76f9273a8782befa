import { hashOf } from "../lib/crypto/hash.ts";
import { keyIdOf, type SigningSecret, statedIdOf } from "./key-format.ts";

const maxCached = 10_000;

/**
 * Verifies secret keys and caches the verified keys. The cache contains hashes, never secret keys. The cache is valid for one set of
 * signing secrets. The cache does not store forged keys, because a flood of forged keys does not contain the same key twice.
 */
export class KeyVerifier {
  readonly #signing: readonly SigningSecret[];
  /** The hashes of the verified secret keys, by key id. */
  readonly #hashes = new Map<string, string[]>();
  #size = 0;

  constructor(signing: readonly SigningSecret[]) {
    this.#signing = signing;
  }

  /** Returns the hash and the key id of a secret key, or null for a forged key. */
  verify(secretKey: string): { secretHash: string; keyId: string } | null {
    // A forged key usually contains a key id that is not in the cache. The verifier rejects such a key without computing a hash.
    const known = this.#hashes.get(statedIdOf(secretKey));
    const knownHash = known && hashOf(secretKey);
    if (knownHash !== undefined && known?.includes(knownHash)) return { secretHash: knownHash, keyId: statedIdOf(secretKey) };
    const keyId = keyIdOf(secretKey, this.#signing);
    if (keyId === null) return null;
    const secretHash = knownHash ?? hashOf(secretKey);
    this.#cache(keyId, secretHash);
    return { secretHash, keyId };
  }

  #cache(keyId: string, secretHash: string): void {
    if (this.#size >= maxCached) {
      this.#hashes.clear();
      this.#size = 0;
    }
    this.#hashes.set(keyId, [...(this.#hashes.get(keyId) ?? []), secretHash]);
    this.#size++;
  }
}
