import { join } from "node:path";
import { cpuMsOf, type Variant } from "./load.ts";
import { type Measured, measureThroughput } from "./throughput.ts";
import { makeToken, post, prepare, unlimited, verifyBody } from "./variants.ts";
import { bundle, type Served, serve } from "./workerd.ts";

// Measures what verification costs beside a request to the API: the CPU time of `POST /verify`, and of `POST /reports` with 100 reports. A bare Worker
// shows what the platform needs for a JSON body and a larger answer.

const rounds = { starts: 3, ofStart: 2 };
const reportsAtOnce = 100;
/** The calls before the measurement, because V8 has to compile the code first. */
const warmCalls = 200;
const reportCalls = 100;

export interface MeasuredVerify {
  cpu: Measured[];
  /** The CPU time of `POST /reports` with 100 reports, in milliseconds, one for each start. */
  reportMs: number[];
}

export async function measureVerify(folder: string): Promise<MeasuredVerify> {
  const reportMs: number[] = [];
  const startAll = async (own: string) => {
    const bare = await serve(bundle("bench/workers/bare.ts", join(own, "bare")), join(own, "bare"));
    const [key = ""] = await prepare(own, [unlimited]);
    const served = await serve(bundle("src/index.ts", own), join(own, "state"));
    const token = await makeToken(served);
    const team = `${served.url}/team/v1`;
    const body = verifyBody(key);
    const ofProduct = { pids: served.pids, status: 200 };
    const variants: Variant[] = [
      { name: "bare", url: bare.url, keys: [key], status: 200, pids: bare.pids },
      { ...ofProduct, name: "GET /me", url: `${served.url}/api/v1/me`, keys: [key] },
      { ...ofProduct, name: "POST /verify", url: `${team}/verify`, keys: [token], bodies: [JSON.stringify({ ...body, report: false })] },
      {
        ...ofProduct,
        name: "POST /verify with a request_id",
        url: `${team}/verify`,
        keys: [token],
        bodies: [JSON.stringify({ ...body, request_id: "0000000000", report: false })],
      },
    ];
    const ofBare = { status: 200, pids: bare.pids };
    variants.push(
      { ...ofBare, name: "a bare Worker: GET", url: bare.url, keys: [key] },
      {
        ...ofBare,
        name: "a bare Worker: a JSON body and an answer of this size",
        url: `${bare.url}/verify`,
        keys: [key],
        bodies: [JSON.stringify(body)],
      },
    );
    const stop = async () => {
      reportMs.push(await reportCost(served, token, body));
      for (const each of [served, bare]) await each.stop();
    };
    return { variants, stop };
  };
  const measured = await measureThroughput(folder, { startAll, rounds, isPaced: false });
  return { cpu: measured.slice(1), reportMs };
}

/** Returns the CPU time of one call that reports 100 responses, in milliseconds. Each report is the first of its entry. */
async function reportCost({ url, pids }: Served, token: string, body: object): Promise<number> {
  const receipts: string[] = [];
  while (receipts.length < (warmCalls + reportCalls) * reportsAtOnce) {
    const answers = await Promise.all(Array.from({ length: 50 }, () => post(`${url}/team/v1/verify`, token, body)));
    receipts.push(...answers.map((answer) => (answer as { receipt: string }).receipt));
  }
  // The log entries arrive at their log writer first.
  await new Promise((resolve) => setTimeout(resolve, 2000));
  let before = 0;
  for (let call = 0; call < warmCalls + reportCalls; call++) {
    if (call === warmCalls) before = cpuMsOf(pids());
    const reports = receipts
      .slice(call * reportsAtOnce, (call + 1) * reportsAtOnce)
      .map((receipt) => ({ receipt, status: 200, duration_ms: 12, route: "/orders/{id}" }));
    await post(`${url}/team/v1/reports`, token, { reports });
  }
  return (cpuMsOf(pids()) - before) / reportCalls;
}
