import { existingAccounts } from "../../accounts/account.ts";
import { signingSecretsIn } from "../../credentials/key-format.ts";
import { isTokenId, newServiceToken, newTokenId } from "../../credentials/service-token.ts";
import type { Db } from "../../db/client.ts";
import { wrote } from "../../db/optimistic-locking.ts";
import { type Page, pageFrom, scannedAtOnce } from "../../db/page.ts";
import { endSessionsOfToken } from "../../identity/portal-access.ts";
import { hashOf } from "../../lib/crypto/hash.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { secondMs } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import { commitOperation, type OperatorContext } from "../../lifecycle/operator-context.ts";
import { forgetToken, serviceTokensOf, type TokensEnv } from "./authenticate-token.ts";
import {
  hasRoomForToken,
  insertToken,
  listTokens,
  readToken,
  readTokenAndCreated,
  revokeTokenRows,
  type TokenPosition,
  type TokenRow,
} from "./store-tokens.ts";
import { everyRight, reasonAgainst, type TokenRights } from "./token.ts";

/** The context of changes of service tokens. `rights`: the rights of the token that makes the change. */
export interface ChangingTokens extends OperatorContext {
  env: TokensEnv;
  rights: TokenRights;
}

export type NewToken = Pick<TokenRow, "name" | "scopes" | "accountIds" | "expiresAt">;

export const maxTokens = 1000;
const pushTimeoutMs = 5 * secondMs;

/**
 * Creates a service token. Returns its row and the token, which cannot be read again later. Throws `forbidden` if the acting token may not grant its
 * rights. Throws `invalid_body` for an unknown account or a past expiry. Throws `limit_reached` if there are 1,000 live tokens. Throws `unavailable` if
 * the object of the tokens does not respond.
 */
export async function makeToken(changing: ChangingTokens, input: NewToken): Promise<{ row: TokenRow; token: string }> {
  const { db, now, operator, tokenId = null, env, rights } = changing;
  const reason = reasonAgainst(rights, input);
  if (reason !== null) throw new Failure("forbidden", reasons[reason]);
  if (input.expiresAt !== null && input.expiresAt <= now)
    throw new Failure("invalid_body", "The body has a member that is not valid.", {
      fieldErrors: [{ pointer: "/expires_at", detail: "Must be in the future.", code: "too_small" }],
    });
  await requireAccounts(db, input.accountIds ?? []);
  const [signing] = signingSecretsIn(env);
  const id = newTokenId();
  const token = newServiceToken(id, signing);
  const row: TokenRow = {
    id,
    ...input,
    tokenHash: hashOf(token),
    createdBy: operator,
    createdById: tokenId,
    createdAt: now,
    revokedAt: null,
  };
  const details = { name: input.name, scopes: input.scopes, accounts: input.accountIds, expires_at: input.expiresAt };
  const when = hasRoomForToken(maxTokens);
  const change = { result: { row, token }, statements: { inserted: insertToken(db, row, when) }, when };
  const { inserted } = await commitOperation(changing, "token.made", { targetId: id, details }, change);
  if (!wrote(inserted))
    throw new Failure("limit_reached", "A deployment may have at most 1,000 service tokens. Revoke tokens that you no longer use.");
  // The token that creates this one may have been revoked in the meantime.
  const stored = (await readToken(db, id)) ?? row;
  await push(() => serviceTokensOf(env).put(stored) as unknown as Promise<void>);
  return { row, token };
}

const reasons = {
  scopes: "A service token can create only tokens with fewer scopes than its own, and without `tokens:write`.",
  accounts: "A service token can create only tokens for accounts that it may act on itself.",
  expires_at: "A service token cannot create a token that expires later than itself.",
};

async function requireAccounts(db: Db, accountIds: readonly string[]): Promise<void> {
  const existing = new Set(await existingAccounts(db, accountIds));
  const unknown = accountIds.findIndex((id) => !existing.has(id));
  if (unknown < 0) return;
  throw new Failure("invalid_body", "The body has a member that is not valid.", {
    fieldErrors: [{ pointer: `/accounts/${unknown}`, detail: "There is no such account.", code: "invalid_value" }],
  });
}

/**
 * Revokes a service token for good, and the tokens that it created. Requests with them are denied within five seconds, and the sessions of their portal links
 * end. Revoking it again changes nothing. Throws `not_found`, and `unavailable` if the revocation is stored but the object of the tokens does not respond. A
 * scheduled check then takes it over within a minute.
 */
export async function revokeToken(changing: ChangingTokens, id: string): Promise<void> {
  const { db, now, env, rights } = changing;
  const known = isTokenId(id) ? await readToken(db, id) : null;
  // A service token sees only tokens that it could have created itself.
  if (!known || reasonAgainst(rights, known) !== null) throw new Failure("not_found", "There is no such service token.");
  const ending = (await readTokenAndCreated(db, id)).filter(({ revokedAt }) => revokedAt === null);
  const alsoRevoked = ending.flatMap((each) => (each.id === id ? [] : [each.id]));
  const details = { name: known.name, also_revoked: alsoRevoked };
  const statements = { revoked: revokeTokenRows(db, id, now), sessions: endSessionsOfToken(db, id) };
  if (ending.length > 0) await commitOperation(changing, "token.revoked", { targetId: id, details }, { statements });
  // The batch also revokes tokens that were created since the list was read.
  const revoked = await readTokenAndCreated(db, id);
  for (const token of revoked) forgetToken(token.tokenHash);
  await push(() => serviceTokensOf(env).putAll(revoked) as unknown as Promise<void>);
}

async function push(call: () => Promise<void>): Promise<void> {
  try {
    await withDeadline(call(), pushTimeoutMs, "The push of a service token");
  } catch (cause) {
    throw new Failure("unavailable", "The change is saved, but it is not active yet. Send the request again.", { cause });
  }
}

/** A service token with its last use. `lastUsedAt` is null if the token was never used, or if the object of the tokens does not respond. */
export interface ListedToken extends TokenRow {
  lastUsedAt: number | null;
}

/**
 * Returns a page of the live service tokens that a token with these rights could have created, newest first, or also the revoked ones. A page can have fewer
 * tokens than `limit` although another page follows, because one call reads a limited number of tokens.
 */
export async function readTokens(
  db: Db,
  env: TokensEnv,
  {
    revokedToo,
    rights = everyRight,
    after,
    limit,
  }: { revokedToo: boolean; rights?: TokenRights; after?: TokenPosition | undefined; limit: number },
): Promise<Page<ListedToken, TokenPosition>> {
  const scanned = await listTokens(db, { revokedToo, after, limit: scannedAtOnce });
  const visible = scanned.filter((row) => reasonAgainst(rights, row) === null);
  const last = scanned.length < scannedAtOnce ? undefined : scanned.at(-1);
  const positionOf = ({ createdAt, id }: TokenRow): TokenPosition => ({ createdAt, id });
  const { rows, next } = pageFrom(visible, limit, positionOf, last ? positionOf(last) : null);
  const uses = await withDeadline(
    serviceTokensOf(env).lastUses() as Promise<Record<string, number>>,
    pushTimeoutMs,
    "Reading last uses",
  ).catch((): Record<string, number> => ({}));
  return { rows: rows.map((row) => ({ ...row, lastUsedAt: uses[row.id] ?? null })), next };
}
