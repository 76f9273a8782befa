import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { root } from "../scripts/root.ts";
import { newKeyId, newSecretKey } from "../src/credentials/key-format.ts";
import { hourMs } from "../src/lib/time/clock.ts";
import { startFastify } from "./fastify.ts";
import { load, type Variant } from "./load.ts";
import { bundle, migrationStatements, operatorToken, type Served, serve } from "./workerd.ts";

export const unlimited = 1_000_000_000;
const maxRunMs = 20_000;

/**
 * Creates the product's databases in `folder`, and one key for each limit in `hourlyLimits`. Returns the secret keys. `checkout` is the
 * checkout that contains the product's code.
 */
export async function prepare(folder: string, hourlyLimits: number[], checkout = root): Promise<string[]> {
  const attendant = await serve(bundle("bench/workers/attendant.ts", join(folder, "attendant"), { checkout }), join(folder, "state"));
  const body = JSON.stringify({ migrations: migrationStatements(checkout), hourlyLimits });
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

/** Returns 64 well-formed keys that are signed with a wrong secret. An attacker who has read the documentation can send such keys. */
const forgedKeys = (): string[] =>
  Array.from({ length: 64 }, () => newSecretKey(newKeyId(), { name: "a", secret: "not the secret of this service" }));

/** The names of the floors. A floor is a variant that does only the work that the contract and docs/decisions require. */
export const floors = {
  exchange: "floor: one exchange",
  admitted: "floor: an admitted request",
  of64: "floor: admitted requests of 64 keys",
  forged: "floor: a forged key",
};

interface Programs {
  /** All variants. The first variant is the bare Worker. */
  variants: Variant[];
  ours: Served;
  /**
   * `keys` contains 64 keys with a very high hourly limit, which no run reaches. `small` is a key with a limit of one request per hour. The key
   * `revocable` may be revoked.
   */
  keys: string[];
  small: string;
  revocable: string;
  stop(): Promise<void>;
}

/** Starts three Workers: the bare Worker, the floors and the product. Each Worker runs in its own process. */
async function startPrograms(folder: string): Promise<Programs> {
  const made = await prepare(join(folder, "ours"), [...Array<number>(64).fill(unlimited), 1, unlimited]);
  const [keys, [small = "", revocable = ""]] = [made.slice(0, 64), made.slice(64)];
  await prepare(join(folder, "floor"), []);
  const start = async (name: string, source: string) => {
    const served = await serve(bundle(source, join(folder, name)), join(folder, name, "state"));
    return { served, pids: served.pids };
  };
  const bare = await start("bare", "bench/workers/bare.ts");
  const floor = await start("floor", "bench/workers/floor.ts");
  const ours = await start("ours", "src/index.ts");
  const [oneKey, forged] = [keys.slice(0, 1), forgedKeys()];
  const [admitted, me] = [`${floor.served.url}/admitted`, `${ours.served.url}/api/v1/me`];
  // A guard that is idle for ten seconds is evicted from memory. The guards of busy keys are always awake. One second of load therefore wakes
  // the guards before each measurement.
  const awake = (variant: Variant): Variant => ({ ...variant, before: () => load(variant, 1) });
  // Some variants ignore the key. Their requests also contain a key, so all requests have the same size.
  const variants: Variant[] = [
    { name: "bare", ...bare, url: bare.served.url, keys, status: 200 },
    { name: floors.exchange, ...floor, url: `${floor.served.url}/exchange`, keys, status: 200 },
    { name: floors.admitted, ...floor, url: admitted, keys: oneKey, status: 200 },
    awake({ name: floors.of64, ...floor, url: admitted, keys, status: 200 }),
    { name: floors.forged, ...floor, url: `${floor.served.url}/forged`, keys: forged, status: 401, isAttack: true },
    { name: "ours, one key", ...ours, url: me, keys: oneKey, status: 200 },
    { name: "ours, forged keys", ...ours, url: me, keys: forged, status: 401, isAttack: true },
    // The alarms of the guards fire five seconds after the run. This variant must therefore be the last variant of its process.
    awake({ name: "ours, 64 keys", ...ours, url: me, keys, status: 200 }),
  ];
  const stop = async () => {
    for (const { served } of [bare, floor, ours]) await served.stop();
  };
  return { variants, ours: ours.served, keys, small, revocable, stop };
}

/**
 * Uses up the hourly limit of a key whose limit is one request per hour. If the current hour could end during the run, first waits for the next
 * hour.
 */
async function useUp(url: string, key: string): Promise<void> {
  const left = hourMs - (Date.now() % hourMs);
  if (left < maxRunMs) await sleep(left);
  await fetch(url, { headers: { Authorization: `Bearer ${key}` } });
}

/**
 * Starts the bare Worker, the product of this checkout and the product of another checkout. If `start` is even, the product of this checkout
 * starts first. If `start` is odd, the other product starts first. Over several starts, neither product has an advantage.
 * `names`: the variants to start. If it is empty, all variants are started.
 */
export async function startBoth(
  folder: string,
  other: string,
  start: number,
  names: readonly string[],
): Promise<{ variants: Variant[]; stop(): Promise<void> }> {
  const bare = await serve(bundle("bench/workers/bare.ts", join(folder, "bare")), join(folder, "bare"));
  const both = [
    { name: "ours", checkout: root },
    { name: "the other checkout", checkout: other },
  ];
  const products: Awaited<ReturnType<typeof startProduct>>[] = [];
  for (const { name, checkout } of start % 2 === 0 ? both : both.toReversed())
    products.push(await startProduct(join(folder, name.replaceAll(" ", "-")), name, checkout));
  const [keys = []] = products.map((product) => product.keys);
  const isWanted = ({ name }: Variant) => names.length === 0 || names.some((each) => name.endsWith(`, ${each}`));
  const variants = [
    { name: "bare", url: bare.url, keys, status: 200, pids: bare.pids },
    ...(products[0]?.variants ?? []).flatMap((_, index) => products.flatMap((product) => product.variants[index] ?? [])).filter(isWanted),
  ];
  const stop = async () => {
    for (const { served } of [...products, { served: bare }]) await served.stop();
  };
  return { variants, stop };
}

async function startProduct(folder: string, name: string, checkout: string) {
  const made = await prepare(folder, [...Array<number>(64).fill(unlimited), 1], checkout);
  const [keys, [small = ""]] = [made.slice(0, 64), made.slice(64)];
  const served = await serve(bundle("src/index.ts", folder, { checkout }), join(folder, "state"));
  const of = { url: `${served.url}/api/v1/me`, pids: served.pids };
  const all: Variant = { ...of, name: `${name}, 64 keys`, keys, status: 200 };
  const body = { ...verifyBody(keys[0] ?? ""), report: false };
  const ofVerify = { url: `${served.url}/team/v1/verify`, keys: [await makeToken(served)], pids: served.pids, status: 200 };
  const variants: Variant[] = [
    { ...of, name: `${name}, one key`, keys: keys.slice(0, 1), status: 200 },
    { ...of, name: `${name}, forged keys`, keys: forgedKeys(), status: 401, isAttack: true },
    { ...of, name: `${name}, forged keys that never repeat`, keys: forgedKeys(), neverRepeats: true, status: 401, isAttack: true },
    { ...of, name: `${name}, exhausted key`, keys: [small], status: 429, isAttack: true, before: () => useUp(of.url, small) },
    { ...all, before: () => load(all, 1) },
    { ...ofVerify, name: `${name}, verify`, bodies: [JSON.stringify(body)] },
    { ...ofVerify, name: `${name}, verify with a request_id`, bodies: [JSON.stringify({ ...body, request_id: "0000000000" })] },
  ];
  return { served, keys, variants };
}

export const post = async (url: string, token: string, body: object) => {
  const response = await fetch(url, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
  return response.json();
};

/** Creates a service token with the scope `verify`. */
export const makeToken = async ({ url }: Served): Promise<string> =>
  ((await post(`${url}/team/v1/tokens`, operatorToken, { name: "Bench", scopes: ["verify"] })) as { token: string }).token;

/** A call that verifies a request with a key. */
export const verifyBody = (key: string) => ({ key, method: "GET", path: "/orders/7", route: "/orders/{id}", ip: "198.51.100.7" });

/** Starts all variants of the comparison. In `variants`, the bare Worker comes first. */
export async function startVariants(folder: string): Promise<{ variants: Variant[]; stop(): Promise<void> }> {
  const programs = await startPrograms(folder);
  const { ours, keys, small, revocable } = programs;
  const naive = await startNaive(join(folder, "naive"));
  const fastify = await startFastify(join(folder, "fastify"), keys);
  const ofProduct = { url: `${ours.url}/api/v1/me`, pids: ours.pids, isAttack: true };
  await fetch(`${ours.url}/api/v1/keys/revoke-leaked`, { method: "POST", body: JSON.stringify({ key: revocable }) });
  const variants: Variant[] = [
    ...programs.variants,
    { name: "naive", url: `${naive.served.url}/me`, keys: naive.keys.slice(0, 1), status: 200, pids: naive.served.pids },
    { name: "Fastify, Redis, PostgreSQL", url: `${fastify.url}/me`, keys: keys.slice(0, 1), status: 200, pids: fastify.pids },
    { name: "ours, forged keys that never repeat", ...ofProduct, keys: forgedKeys(), neverRepeats: true, status: 401 },
    { name: "ours, exhausted key", ...ofProduct, keys: [small], status: 429, before: () => useUp(ofProduct.url, small) },
    { name: "ours, revoked key", ...ofProduct, keys: [revocable], status: 401 },
  ];
  const stop = async () => {
    for (const each of [programs, naive.served, fastify]) await each.stop();
  };
  return { variants, stop };
}
