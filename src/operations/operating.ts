import type { Db } from "../db/client.ts";
import { type Commit, commitChange, type Outbox } from "../webhooks/outbox.ts";
import { type NewOperation, storeOperation } from "./operator-audit.ts";

/** The context of an operator's action. `operator`: the name of the operator token in the request. */
export interface Operating {
  db: Db;
  now: number;
  operator: string;
  outbox: Outbox;
}

/** Returns a `Commit` function that also writes an entry to the operator audit. The entry and the change are written in the same batch. */
export const operatorCommit =
  ({ db, now, operator, outbox }: Operating, action: string, about: Omit<NewOperation, "now" | "operator" | "action">): Commit =>
  (change) => {
    const target = change.audit?.find(({ targetType }) => targetType !== "account")?.targetId;
    return commitChange(outbox, change, [storeOperation(db, { now, operator, action, targetId: target ?? null, ...about }, change.when)]);
  };
