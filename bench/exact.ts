import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { prepare } from "./variants.ts";
import { bundle, operatorToken, type Served, serve } from "./workerd.ts";

const limit = 5000;
const requests = 6000;
const perSecond = 1000;
const keysOfAccount = 50;

/** Sends 6,000 requests on a limit of 5,000 to several isolates, also while everything is killed each second. Returns a table in Markdown. */
export async function exactTable(folder: string): Promise<string> {
  const cases = [
    { name: "one key, one isolate", keys: 1, isolates: 1, kills: false },
    { name: "one key, four isolates", keys: 1, isolates: 4, kills: false },
    { name: "50 keys of an account, four isolates", keys: keysOfAccount, isolates: 4, kills: false },
    { name: "one key, one isolate, all processes killed each second", keys: 1, isolates: 1, kills: true },
    { name: "one key, four isolates, all processes killed each second", keys: 1, isolates: 4, kills: true },
    { name: "50 keys of an account, four isolates, all processes killed each second", keys: keysOfAccount, isolates: 4, kills: true },
  ];
  const rows: string[] = [];
  for (const [index, { name, ...options }] of cases.entries()) {
    const { admitted, failed, kills } = await send(join(folder, String(index)), options);
    rows.push(`| ${name} | ${admitted.toLocaleString("en")} | ${failed} | ${kills} |`);
  }
  return ["| 6,000 requests on a limit of 5,000 | admitted | failed | kills |", "| --- | ---: | ---: | ---: |", ...rows].join("\n");
}

async function send(folder: string, { keys, isolates, kills }: { keys: number; isolates: number; kills: boolean }) {
  const secrets = await prepare(folder, Array<number>(keys).fill(keys === 1 ? limit : 10 * limit));
  const script = bundle("src/index.ts", folder);
  const start = () => serve(script, join(folder, "state"), { isolates });
  let served: Served = await start();
  if (keys > 1) await limitAccount(served, secrets[0] ?? "");
  const counts = { admitted: 0, failed: 0, kills: 0 };
  const one = async (n: number) => {
    const url = `${served.urls[n % isolates]}/api/v1/me`;
    const status = await fetch(url, { headers: { Authorization: `Bearer ${secrets[n % keys]}` } }).then(
      (response) => response.arrayBuffer().then(() => response.status),
      () => 0,
    );
    if (status === 200) counts.admitted++;
    else if (status !== 429) counts.failed++;
  };
  const sent: Promise<void>[] = [];
  for (let n = 0; n < requests; ) {
    for (let each = 0; each < perSecond / 100; each++) sent.push(one(n++));
    await sleep(10);
    if (!kills || n % perSecond !== 0) continue;
    counts.kills++;
    await served.stop("SIGKILL");
    served = await start();
  }
  await Promise.all(sent);
  await served.stop();
  return counts;
}

async function limitAccount({ url }: Served, secret: string): Promise<void> {
  const { account } = (await (await fetch(`${url}/api/v1/me`, { headers: { Authorization: `Bearer ${secret}` } })).json()) as {
    account: { id: string };
  };
  const response = await fetch(`${url}/team/v1/accounts/${account.id}`, {
    method: "PATCH",
    headers: { Authorization: `Bearer ${operatorToken}`, "Content-Type": "application/json" },
    body: JSON.stringify({ limits: [{ per: "hour", limit }] }),
  });
  if (!response.ok) throw new Error(await response.text());
}
