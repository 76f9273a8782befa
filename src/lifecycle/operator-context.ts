import { type Actor, operatorOn, tokenOn } from "../accounts/actor.ts";
import type { Db } from "../db/client.ts";
import { type NewOperation, storeOperation } from "../identity/audit/operator-audit.ts";
import { type Change, type Commit, commitChange, type Outbox, type Statements } from "../outbox/outbox.ts";

/** The context of an operator's action. `operator`: the name of the operator token or service token in the request. */
export interface OperatorContext {
  db: Db;
  now: number;
  operator: string;
  /** The id of the service token in the request. Undefined if the request has an operator token. */
  tokenId?: string | undefined;
  outbox: Outbox;
}

/** Returns the actor of an operator's action on an account. */
export const actorOf = ({ tokenId }: Pick<OperatorContext, "tokenId">, accountId: string): Actor =>
  tokenId === undefined ? operatorOn(accountId) : tokenOn(accountId, tokenId);

type About = Omit<NewOperation, "now" | "operator" | "tokenId" | "action">;

/** Returns a `Commit` function that also writes an entry to the operator audit. The entry and the change are written in the same batch. */
export const operatorCommit =
  ({ db, now, operator, tokenId, outbox }: OperatorContext, action: string, about: About): Commit =>
  (change) => {
    const target = change.audit?.find(({ targetType }) => targetType !== "account")?.targetId;
    return commitChange(outbox, change, [
      storeOperation(db, { now, operator, tokenId, action, targetId: target ?? null, ...about }, change.when),
    ]);
  };

/** Writes a change that creates no events, and an entry in the operator audit. The change is written even if the database is full. */
export const commitOperation = <Named extends Statements>(
  context: OperatorContext,
  action: string,
  about: About,
  change: Omit<Change<Named>, "events" | "whenFull">,
) => operatorCommit(context, action, about)<Named>({ whenFull: "write", events: [], ...change });
