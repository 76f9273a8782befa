import { insertAccount, newAccount } from "../../src/accounts/account.ts";
import { operatorOn } from "../../src/accounts/actor.ts";
import { signingSecretsIn } from "../../src/credentials/key-format.ts";
import { connect } from "../../src/db/client.ts";
import { createKey } from "../../src/keys/create-key.ts";
import { scopes } from "../../src/keys/scopes.ts";
import { writersOf } from "../../src/log/writers.ts";
import { commitTo } from "../../src/outbox/outbox.ts";

export { AccountBudget } from "../../src/budget/account-budget.ts";
export { KeyGuard } from "../../src/guard/key-guard.ts";
export { ActivityWriter } from "../../src/log/writer/activity-writer.ts";

interface Wanted {
  /** The migration statements of each database. */
  migrations: { main: string[]; activity: string[] };
  /** The hourly limits. One key is created for each limit. */
  hourlyLimits: number[];
}

const keysPerAccount = 50;

/** Uses the product's own code to create the data for a bench. The bench then stops this Worker and starts the product with the same data. */
export default {
  async fetch(request, env) {
    if (request.method !== "POST") return new Response("ready");
    const { migrations, hourlyLimits } = await request.json<Wanted>();
    await env.DB.batch(migrations.main.map((statement) => env.DB.prepare(statement)));
    await env.ACTIVITY_0.batch(migrations.activity.map((statement) => env.ACTIVITY_0.prepare(statement)));
    const db = connect(env.DB);
    const now = Date.now();
    const [signing] = signingSecretsIn(env);
    const keys: string[] = [];
    let accountId = "";
    for (const [index, hourlyLimit] of hourlyLimits.entries()) {
      if (index % keysPerAccount === 0) {
        const logWriter = `ACTIVITY_0/${(index / keysPerAccount) % writersOf(env)}`;
        const account = newAccount(now, { name: "Bench", email: "bench@example.com", logWriter });
        await insertAccount(db, account);
        accountId = account.id;
        await env.DB.prepare("UPDATE accounts SET limit_ceiling = ?").bind(Number.MAX_SAFE_INTEGER).run();
      }
      const writing = { db, now, actor: operatorOn(accountId), commit: commitTo({ db }), signing: () => signing };
      keys.push((await createKey(writing, { name: `Key ${index}`, scopes: [...scopes], hourlyLimit })).secretKey);
    }
    return Response.json({ keys });
  },
} satisfies ExportedHandler<Env>;
