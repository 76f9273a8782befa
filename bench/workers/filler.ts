import { connect } from "../../src/db/client.ts";
import { jobs } from "../../src/jobs/jobs.ts";
import { newId } from "../../src/lib/ids.ts";
import type { Entry } from "../../src/log/entry.ts";
import { storeHistory } from "../../src/log/writer/store-history.ts";
import { readWriters, writerAt, writersOf } from "../../src/log/writers.ts";
import { onDelete } from "../../src/resources/on-delete.ts";
import { batchOf, benchEntry } from "./entry.ts";
import { workerOf } from "./verbs.ts";

export { KeyGuard } from "../../src/guard/key-guard.ts";
export { ActivityWriter } from "../../src/log/writer/activity-writer.ts";

/** The log entries to create. The entries are spread evenly over the accounts, the keys and the time from `from` to `to`. */
interface Fill {
  accounts: string[];
  keys: number;
  /** The number of entries per account. */
  entries: number;
  from: number;
  to: number;
}

const entriesOf = (accountId: string, { keys, entries, from, to }: Fill): Entry[] =>
  Array.from({ length: entries }, (_, index) =>
    benchEntry(
      { accountId, id: newId("req", Math.floor(from + ((to - from) * index) / entries)), keyId: `key_${accountId}${index % keys}` },
      {
        route: index % 3 > 0 ? "/api/v1/tasks/{id}" : "/api/v1/me",
        status: index % 10 > 0 ? 200 : 404,
        durationMs: Math.floor(Math.random() * 300),
      },
    ),
  );

/** Returns the name of the log writer of an account. The verb `accounts` gives the account the same one. */
const writerOf = (accountId: string, env: Env): string => `ACTIVITY_0/${Number(accountId.slice("acc_".length)) % writersOf(env)}`;

/** Stores entries in D1, as if they had been flushed. */
async function fill(given: Fill, env: Env): Promise<void> {
  for (const accountId of given.accounts)
    await storeHistory(connect(env.ACTIVITY_0), writerOf(accountId, env), entriesOf(accountId, given), given.to);
}

/** Gives entries to log writers. */
async function append(given: Fill, env: Env): Promise<void> {
  const all = given.accounts.flatMap((accountId) => entriesOf(accountId, given));
  const byWriter = Map.groupBy(all, ({ accountId }) => writerOf(accountId, env));
  await Promise.all([...byWriter].map(([logWriter, entries]) => writerAt(env, logWriter).write(batchOf(entries))));
}

export default workerOf<Env>({
  fill,
  accounts: async (ids: string[], env) =>
    env.DB.prepare(
      "INSERT INTO accounts (id, name, email, log_writer, created_at) SELECT value, 'Bench', 'bench@example.com', 'ACTIVITY_0/' || (substr(value, 5) % 4), 0 FROM json_each(?)",
    )
      .bind(JSON.stringify(ids))
      .run(),
  append,
  writers: async (_, env) => readWriters(env),
  /** Runs a scheduled job. In the result, `next` is the cursor for the next run. If nothing is left to do, `next` is null. */
  job: async ({ name, cursor, now }: { name: string; cursor: string; now: number }, env) => {
    const job = jobs.find((each) => each.name === name);
    const outbox = { db: connect(env.DB) };
    return job?.run({ env, now, outbox, onDelete, deliver: async () => {}, cursor, atMost: job.atMost, endsAt: Date.now() + 40_000 });
  },
});
