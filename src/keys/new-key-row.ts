import type { ReadContext } from "../accounts/actor.ts";
import { newRevision } from "../db/client.ts";
import type { KeyRow } from "./key.ts";

type Given = "id" | "name" | "externalId" | "metadata" | "last4" | "shownPrefix" | "secretHash" | "signedBy";
type Allowed = "scopes" | "hourlyLimit" | "otherLimits" | "limitsFrom" | "allowedIps" | "expiresAt";

export const newKeyRow = ({ actor, now }: Pick<ReadContext, "actor" | "now">, given: Pick<KeyRow, Given | Allowed>): KeyRow => ({
  ...given,
  accountId: actor.accountId,
  previousSecretHash: null,
  overlapEndsAt: null,
  state: "active",
  notifiedExpiry: null,
  version: 1,
  pushedVersion: 1,
  revision: newRevision(),
  createdByType: actor.by.type,
  createdById: actor.by.id,
  createdAt: now,
  updatedAt: now,
  previousSignedBy: null,
});
