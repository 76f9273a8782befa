import { type Deployment, domainsOf } from "./deployment.ts";
import { jsonIn, wrangler } from "./wrangler.ts";

// What is attached to a Worker: its addresses, queues and cron, and the Workers that get its log. wrangler cannot show it, so this file asks Cloudflare's API.

/** The consumer of a queue, with the settings that wrangler.toml has for it. */
export interface Consumer {
  queue: string;
  max_batch_size: number;
  max_retries: number;
  max_concurrency: number | null;
  dead_letter_queue: string | null;
  /** Whether the queue is paused. The consumer then gets no messages. */
  is_paused: boolean;
}

export interface Triggers {
  /** The hosts of its custom domains. */
  domains: string[];
  isOnWorkersDev: boolean;
  /** Cron expressions. */
  crons: string[];
  consumers: Consumer[];
  /** The names of the Workers that get its log, which Cloudflare calls tail Workers. */
  tailWorkers: string[];
}

/** A consumer as Cloudflare's API shows it. */
interface ShownConsumer {
  script?: string;
  service?: string;
  dead_letter_queue?: string;
  settings?: { batch_size?: number; max_retries?: number; max_concurrency?: number | null };
}

interface ShownQueue {
  queue_name: string;
  settings?: { delivery_paused?: boolean };
  consumers: ShownConsumer[];
}

/** Reads the triggers of the deployed Worker. Returns null if they cannot be read, for example because wrangler has no token that it may show. */
export async function readTriggers(deployment: Deployment): Promise<Triggers | null> {
  const ask = await askerOf(deployment);
  if (ask === null) return null;
  try {
    const [{ schedules }, { enabled: isOnWorkersDev }, domains, { tail_consumers: tails }, ...queues] = (await Promise.all([
      ask(`/workers/scripts/${deployment.worker}/schedules`),
      ask(`/workers/scripts/${deployment.worker}/subdomain`),
      ask(`/workers/domains?service=${deployment.worker}`),
      ask(`/workers/scripts/${deployment.worker}/settings`),
      ...deployment.queues.map((name) => ask(`/queues?name=${encodeURIComponent(name)}`)),
    ])) as [
      { schedules: { cron: string }[] },
      { enabled: boolean },
      { hostname: string }[],
      { tail_consumers?: { service: string }[] | null },
      ...ShownQueue[][],
    ];
    const consumers = queues.flat().flatMap(({ queue_name: queue, settings: ofQueue, consumers: shown }) =>
      shown
        .filter(({ script, service }) => (script ?? service) === deployment.worker)
        .map(
          ({ settings = {}, dead_letter_queue = null }): Consumer => ({
            queue,
            max_batch_size: settings.batch_size ?? defaults.max_batch_size,
            max_retries: settings.max_retries ?? defaults.max_retries,
            max_concurrency: settings.max_concurrency ?? null,
            dead_letter_queue,
            is_paused: ofQueue?.delivery_paused === true,
          }),
        ),
    );
    return {
      domains: domains.map(({ hostname }) => hostname),
      isOnWorkersDev,
      crons: schedules.map(({ cron }) => cron),
      consumers,
      tailWorkers: (tails ?? []).map(({ service }) => service),
    };
  } catch {
    return null;
  }
}

/** What Cloudflare uses for a consumer without these settings. */
const defaults = { max_batch_size: 10, max_retries: 3 };

/** Returns the triggers that a deploy of the repository attaches. */
export const triggersOf = ({ origins, isOnWorkersDev, crons, consumers }: Deployment): Triggers => ({
  domains: domainsOf({ origins }),
  isOnWorkersDev,
  crons,
  consumers: consumers.map(({ queue, max_batch_size, max_retries, max_concurrency = null, dead_letter_queue = null }) => ({
    queue,
    max_batch_size: max_batch_size ?? defaults.max_batch_size,
    max_retries: max_retries ?? defaults.max_retries,
    max_concurrency,
    dead_letter_queue,
    is_paused: false,
  })),
  tailWorkers: [],
});

/** Returns a function that asks the API about the account of the deployment, or null without a token or an account. */
async function askerOf(deployment: Deployment): Promise<((path: string) => Promise<unknown>) | null> {
  const api = process.env.CLOUDFLARE_API_BASE_URL ?? "https://api.cloudflare.com/client/v4";
  const [token, account] = await Promise.all([tokenOf(deployment), accountOf(deployment)]);
  if (token === null || account === null) return null;
  return async (path) => {
    const response = await fetch(`${api}/accounts/${account}${path}`, {
      headers: { Authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(30_000),
    });
    if (!response.ok) throw new Error(`${path} was answered ${response.status}`);
    return ((await response.json()) as { result: unknown }).result;
  };
}

async function tokenOf(deployment: Deployment): Promise<string | null> {
  if (process.env.CLOUDFLARE_API_TOKEN) return process.env.CLOUDFLARE_API_TOKEN;
  const { code, out } = await wrangler(["auth", "token", "--json"], deployment, { mayFail: true });
  return code === 0 ? ((jsonIn(out) as { token?: string }).token ?? null) : null;
}

async function accountOf(deployment: Deployment): Promise<string | null> {
  if (process.env.CLOUDFLARE_ACCOUNT_ID) return process.env.CLOUDFLARE_ACCOUNT_ID;
  const { code, out } = await wrangler(["whoami", "--json"], deployment, { mayFail: true });
  const { accounts = [] } = code === 0 ? (jsonIn(out) as { accounts?: { id: string }[] }) : {};
  return accounts.length === 1 ? (accounts[0]?.id ?? null) : null;
}
