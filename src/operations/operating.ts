import type { Db } from "../db/client.ts";
import { type Commit, commitChange, type Outbox } from "../webhooks/outbox.ts";
import { type NewOperation, storeOperation } from "./operator-audit.ts";

/** What a verb of the operator takes. `operator`: the name of the token that it came with. */
export interface Operating {
  db: Db;
  now: number;
  operator: string;
  outbox: Outbox;
}

/** A commit that writes an entry of the operator's audit with the change. */
export const operatorCommit =
  ({ db, now, operator, outbox }: Operating, action: string, about: Omit<NewOperation, "now" | "operator" | "action">): Commit =>
  (change) => {
    const target = change.audit?.find(({ targetType }) => targetType !== "account")?.targetId;
    return commitChange(outbox, change, [storeOperation(db, { now, operator, action, targetId: target ?? null, ...about }, change.when)]);
  };
