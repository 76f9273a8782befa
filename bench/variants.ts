import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { hourMs } from "../src/clock.ts";
import { newKeyId, newSecretKey } from "../src/keys/key-format.ts";
import { startFastify } from "./fastify.ts";
import { load, type Variant } from "./load.ts";
import { bundle, migrationStatements, type Served, serve } from "./workerd.ts";

export const unlimited = 1_000_000_000;
const longestRunMs = 20_000;

/** Makes the product's data in a folder: its tables and a key for each limit. Answers the secrets. */
export async function prepare(folder: string, hourlyLimits: number[]): Promise<string[]> {
  const attendant = await serve(bundle("bench/workers/attendant.ts", join(folder, "attendant")), join(folder, "state"));
  const body = JSON.stringify({ migrations: migrationStatements(), hourlyLimits });
  const { keys } = (await (await fetch(attendant.url, { method: "POST", body })).json()) as { keys: string[] };
  await attendant.stop();
  return keys;
}

export async function startNaive(folder: string, script = "naive"): Promise<{ served: Served; keys: string[] }> {
  const served = await serve(bundle(`bench/workers/${script}.ts`, join(folder, "bundle")), join(folder, "state"));
  const keys = Array.from({ length: 64 }, (_, index) => `key-${index}`);
  await fetch(`${served.url}/prepare`, { method: "POST", body: JSON.stringify({ keys, limit: unlimited }) });
  return { served, keys };
}

/** 64 keys that are right in form, but signed by another secret: what somebody sends again and again who has read the documentation. */
export const forgedKeys = (): string[] =>
  Array.from({ length: 64 }, () => newSecretKey(newKeyId(), { name: "a", secret: "not the secret of this service" }));

/** The variants that leave out all that the contract and docs/decisions let them. */
export const floors = {
  exchange: "floor: one exchange",
  admitted: "floor: an admitted request",
  of64: "floor: admitted requests of 64 keys",
  forged: "floor: a forged key",
};

/** Starts every variant of the comparison, side by side. */
export async function startVariants(folder: string): Promise<{ variants: Variant[]; stop(): Promise<void> }> {
  const bare = await serve(bundle("bench/workers/bare.ts", join(folder, "bare")), join(folder, "bare"));
  const naive = await startNaive(join(folder, "naive"));
  const made = await prepare(join(folder, "ours"), [...Array<number>(64).fill(unlimited), 1, unlimited]);
  const [keys, used, revoked] = [made.slice(0, 64), made.slice(64, 65), made.slice(65)];
  const ours = await serve(bundle("src/index.ts", join(folder, "ours")), join(folder, "ours", "state"));
  await prepare(join(folder, "floor"), []);
  const floor = await serve(bundle("bench/workers/floor.ts", join(folder, "floor")), join(folder, "floor", "state"));
  const me = `${ours.url}/api/v1/me`;
  await fetch(`${ours.url}/api/v1/keys/revoke-leaked`, { method: "POST", body: JSON.stringify({ key: revoked[0] }) });
  const forged = forgedKeys();
  const fastify = await startFastify(join(folder, "fastify"), keys);

  const ofProduct = { url: me, pids: ours.pids };
  // Guards that have been still for ten seconds have left: they are awake, as those of busy keys are, before it is measured.
  const of64 = { ...ofProduct, name: "ours, 64 keys", keys, status: 200 };
  const floorOf64 = { name: floors.of64, url: `${floor.url}/admitted`, keys, status: 200, pids: floor.pids };
  /** Of an hour that has some seconds left, so that the next does not begin within the run. */
  const useUp = async () => {
    const left = hourMs - (Date.now() % hourMs);
    if (left < longestRunMs) await sleep(left);
    await fetch(me, { headers: { Authorization: `Bearer ${used[0]}` } });
  };

  // Those that look at no key are sent one all the same: nobody is to be measured with smaller requests.
  const variants: Variant[] = [
    { name: "bare", url: bare.url, keys, status: 200, pids: bare.pids },
    { name: floors.exchange, url: `${floor.url}/exchange`, keys, status: 200, pids: floor.pids },
    { name: floors.admitted, url: `${floor.url}/admitted`, keys: keys.slice(0, 1), status: 200, pids: floor.pids },
    { ...floorOf64, before: () => load(floorOf64, 1) },
    { name: floors.forged, url: `${floor.url}/forged`, keys: forged, status: 401, pids: floor.pids, isAttack: true },
    { name: "ours, one key", ...ofProduct, keys: keys.slice(0, 1), status: 200 },
    { name: "ours, forged keys", ...ofProduct, keys: forged, status: 401, isAttack: true },
    { name: "ours, exhausted key", ...ofProduct, keys: used, status: 429, before: useUp, isAttack: true },
    { name: "ours, revoked key", ...ofProduct, keys: revoked, status: 401, isAttack: true },
    // The guards' alarms ring five seconds after it, so nobody of the same process comes next.
    { ...of64, before: () => load(of64, 1) },
    { name: "naive", url: `${naive.served.url}/me`, keys: naive.keys.slice(0, 1), status: 200, pids: naive.served.pids },
    {
      name: "Fastify, Redis, PostgreSQL",
      url: `${fastify.url}/me`,
      keys: keys.slice(0, 1),
      status: 200,
      pids: fastify.pids,
    },
  ];
  const stop = async () => {
    for (const each of [bare, floor, naive.served, ours, fastify]) await each.stop();
  };
  return { variants, stop };
}
