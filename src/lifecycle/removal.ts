import { type Member, removeMember } from "../identity/member.ts";
import { readKeysOfMember } from "../keys/keys-of-member.ts";
import { revokeKeys } from "../keys/revoke-key.ts";
import type { KeyContext } from "../keys/write-key.ts";

/**
 * Removes a member and revokes the keys among `keyIds` that the member created or rotated, in one batch. Throws the same errors as `removeMember` and
 * `revokeKeys`.
 */
export const removeWithKeys = (context: KeyContext, member: Member, keyIds: readonly string[]): Promise<void> =>
  revokeKeys(
    context,
    () => readKeysOfMember(context, member.id, keyIds),
    (revocation) => removeMember(context, member, revocation),
  );

/** Revokes the keys among `keyIds` that a former member created or rotated. Throws the same errors as `revokeKeys`. */
export const revokeKeysOfFormer = (context: KeyContext, { id }: Member, keyIds: readonly string[]): Promise<void> =>
  revokeKeys(context, () => readKeysOfMember(context, id, keyIds));
