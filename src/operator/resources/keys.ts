import { Hono } from "hono";
import { z } from "zod";
import { type Account, readAccount } from "../../accounts/account.ts";
import { operatorOn } from "../../accounts/actor.ts";
import { logOf } from "../../activity/writers.ts";
import { guardsOf } from "../../admission/guards.ts";
import { connect } from "../../db/client.ts";
import { always } from "../../db/optimistic-locking.ts";
import { Failure } from "../../errors/failure.ts";
import { changeKey } from "../../keys/change-key.ts";
import { createKey } from "../../keys/create-key.ts";
import type { Key } from "../../keys/key.ts";
import { listKeys } from "../../keys/read-keys.ts";
import { revokeKey } from "../../keys/revoke-key.ts";
import { KeyLimits, keyData, keyPatchOf, NewKey, newKeyOf } from "../../keys/schemas.ts";
import { accountOfKey } from "../../operations/change-account.ts";
import { requireNotErased } from "../../operations/erase-account.ts";
import { recordOperation } from "../../operations/operator-audit.ts";
import { idOf, keyContext, type OperatorContext, type OperatorEnv, operating, readBody } from "../context.ts";

const maxKeys = 1000;

/** The members of a key that operators see. */
const shownMembers = [
  "id",
  "name",
  "prefix",
  "last4",
  "status",
  "scopes",
  "hourly_limit",
  "limits",
  "expires_at",
  "last_used_at",
  "created_at",
] as const;

const bodyOf = (key: Key, now: number) => {
  const data = keyData(key, now);
  return Object.fromEntries(shownMembers.map((member) => [member, data[member]]));
};

export const keys = new Hono<OperatorEnv>();

keys.get("/accounts/:id/keys", async (c) => {
  const db = connect(c.env.DB);
  const { id, logWriter } = await readAccount(db, idOf(c));
  const now = Date.now();
  const found = await listKeys({ db, now, actor: operatorOn(id), ...logOf(c.env, logWriter) }, { limit: maxKeys });
  return c.json({ data: found.map((key) => bodyOf(key, now)) });
});

keys.post("/accounts/:id/keys", async (c) => {
  const newKey = newKeyOf(await readBody(c, NewKey));
  await requireNotErased(connect(c.env.DB), idOf(c));
  const account = await readAccount(connect(c.env.DB), idOf(c));
  const context = keyContext(c, account, "key.made");
  const { key, secretKey } = await createKey(context, newKey);
  return c.json({ ...bodyOf(key, Date.now()), secret_key: secretKey }, 201);
});

/** Performs an action on a key. The function finds the account of the key by the id of the key. */
const onKey = async (c: OperatorContext, action: string, work: (account: Account, id: string) => Promise<unknown>) => {
  const id = idOf(c);
  const found = await accountOfKey({ db: connect(c.env.DB), guards: guardsOf(c.env) }, id);
  if (!found) throw new Failure("not_found", "There is no such key.");
  const { account, hasRow } = found;
  const { db, now, operator } = operating(c);
  await work(account, id);
  // If the key has a row in D1, the batch that changes the row also writes the audit entry. If D1 has lost the row, the audit entry is written
  // here.
  if (!hasRow) await recordOperation(db, { now, operator, action, accountId: account.id, targetId: id });
  return c.json({ id, done: action });
};

keys.post("/keys/:id/revoke", (c) =>
  onKey(c, "key.revoked", (account, id) => revokeKey(keyContext(c, account, "key.revoked", id), id, always)),
);
keys.post("/keys/:id/disable", (c) =>
  onKey(c, "key.disabled", (account, id) => changeKey(keyContext(c, account, "key.disabled", id), id, { state: "disabled" }, always)),
);
keys.post("/keys/:id/enable", (c) =>
  onKey(c, "key.enabled", (account, id) => changeKey(keyContext(c, account, "key.enabled", id), id, { state: "active" }, always)),
);
keys.put("/keys/:id/limit", async (c) => {
  const { limit: hourlyLimit } = await readBody(c, z.strictObject({ limit: z.int().min(1) }));
  return onKey(c, "key.limited", (account, id) => changeKey(keyContext(c, account, "key.limited", id), id, { hourlyLimit }, always));
});
keys.put("/keys/:id/limits", async (c) => {
  const patch = keyPatchOf(await readBody(c, KeyLimits));
  return onKey(c, "key.limited", (account, id) => changeKey(keyContext(c, account, "key.limited", id), id, patch, always));
});
