import { setTimeout as sleep } from "node:timers/promises";
import { requireSameWorker } from "../deploy/cloudflare.ts";
import type { Deployment } from "../deploy/deployment.ts";
import { wrangler } from "../deploy/wrangler.ts";
import { CommandError } from "../exit-codes.ts";
import { replaceLocalSecret } from "../local-secrets.ts";
import type { OperatorResponse } from "../operator-client.ts";
import { newSecret } from "../secrets.ts";
import { type Command, callAgain, counted, deploymentOf, type Given, print, table } from "./command.ts";

export const secrets: Record<string, Command> = {
  list: {
    form: "list",
    what: "list the secrets of the Worker, with the number of keys and webhooks that use each",
    args: 0,
    run: listSecrets,
  },
  rotate: {
    form: "rotate key-signing|webhook-encryption",
    what: "replace the older of the two secrets with a new one, if nothing uses the older one (a deployed Worker needs --env)",
    args: 1,
    run: rotateSecret,
  },
  reencrypt: { form: "reencrypt", what: "encrypt the secrets of all webhooks with the newest secret", args: 0, run: reencrypt },
};

/** A secret that signs keys or encrypts webhook secrets, as `GET /secrets` returns it. */
interface Use {
  name: string;
  is_newest: boolean;
  is_there: boolean;
  used: number;
}

async function listSecrets(given: Given): Promise<void> {
  const { body } = await given.client.call("GET", "/secrets");
  const places = Object.entries(body.places as Record<string, string[]>);
  const placeOf = (name: string, binding: string) =>
    places.find(([place, names]) => place.startsWith(binding) && names.includes(name))?.[0] ?? binding;
  const row =
    (binding: string, what: string) =>
    ({ name, is_newest, is_there, used }: Use) => [
      placeOf(name, binding),
      name,
      is_newest ? "current" : is_there ? "older" : "MISSING",
      counted(used, what),
    ];
  const rows = [
    ...body.signing.map(row("KEY_SIGNING_SECRETS", "key")),
    ...body.encryption.map(row("WEBHOOK_ENCRYPTION_SECRETS", "webhook")),
  ];
  const unknown = body.unknown_keys > 0 ? `\nThe service does not know which secret signed ${counted(body.unknown_keys, "key")}.` : "";
  const empty = emptyPlaces(body.places).map((place) => `\n${place} has no readable secret: ${lostSecret}.`);
  const needing = body.need_lost.map(({ id, account_id: account }: { id: string; account_id: string }) => `\n  ${id} of ${account}`);
  const lost = needing.length === 0 ? "" : `\nThese need a secret that the Worker has lost:${needing.join("")}`;
  await print(given, body, () => table(["BINDING", "NAME", "STATE", "USED BY"], rows) + unknown + empty.join("") + lost);
}

/** The part of the runbook about secrets that the Worker has lost. */
const lostSecret = "docs/runbooks/rotate-secrets.md#a-lost-secret";

const emptyPlaces = (places: Record<string, string[]>): string[] =>
  Object.entries(places).flatMap(([place, names]) => (names.length === 0 ? [place] : []));

interface Kind {
  binding: string;
  list: "signing" | "encryption";
  what: string;
  way: string;
}

export const rotated: Record<string, Kind> = {
  "key-signing": {
    binding: "KEY_SIGNING_SECRETS",
    list: "signing",
    what: "key",
    way: "Rotate or revoke these keys first, because a key keeps the secret that signed it.",
  },
  "webhook-encryption": {
    binding: "WEBHOOK_ENCRYPTION_SECRETS",
    list: "encryption",
    what: "webhook",
    way: "Encrypt them with the newest secret first: operator secrets reencrypt.",
  },
};

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/**
 * Returns the place of the older secret of a kind, the names in it, and the name of the secret that replaces it. `unknown`: the number of keys whose secret
 * nobody knows. Throws `CommandError` if keys or webhooks need the older secret, or if a place is empty. A new secret could then get the name of the lost
 * one, and nobody would see which keys and webhooks do not work. And who goes back to a version with the lost one would lose the new one.
 */
export function replacementFor(
  { binding, what, way }: Kind,
  uses: readonly Use[],
  placesOfAll: Record<string, string[]>,
  unknown: number,
): { place: string; names: string[]; name: string } {
  const empty = emptyPlaces(placesOfAll);
  if (empty.length > 0)
    throw new CommandError("refused", `Nothing is changed. The Worker has no readable secret in ${empty.join(", ")}: ${lostSecret}.`);
  const lost = uses.filter(({ is_there, used }) => !is_there && used > 0);
  if (lost.length > 0)
    throw new CommandError(
      "refused",
      `Nothing is changed. The Worker has lost the secret ${lost.map(({ name, used }) => `${name}, which ${counted(used, what)} still ${used === 1 ? "needs" : "need"}`).join(", and ")}: ${lostSecret}.`,
    );
  const newest = uses.find(({ is_newest }) => is_newest)?.name ?? "";
  const places = Object.entries(placesOfAll).filter(([place]) => place.startsWith(binding));
  const older = places.find(([, names]) => !names.includes(newest));
  if (!older)
    throw new CommandError(
      "refused",
      `Both places have the name ${newest}. Give each place its own name: docs/runbooks/rotate-secrets.md.`,
    );
  const [place, names] = older;
  const used = uses.filter(({ name }) => names.includes(name)).reduce((sum, each) => sum + each.used, 0) + unknown;
  if (used > 0)
    throw new CommandError("refused", `The older secret (${names.join(", ")}) is still needed by ${counted(used, what)}. ${way}`);
  const name = base62[base62.indexOf(newest) + 1];
  if (name === undefined)
    throw new CommandError("refused", "There is no name after z. Set a new name by hand: docs/runbooks/rotate-secrets.md.");
  return { place, names, name };
}

async function rotateSecret(given: Given): Promise<void> {
  const kind = rotated[given.args[0] ?? ""];
  if (!kind) throw new CommandError("misuse", `There are two to rotate: ${Object.keys(rotated).join(" and ")}.`);
  const deployment = deploymentOf(given);
  const { body } = await given.client.call("GET", "/secrets");
  const uses: Use[] = body[kind.list];
  const { place, names, name } = replacementFor(kind, uses, body.places, kind.list === "signing" ? body.unknown_keys : 0);
  if (deployment === null) replaceLocalSecret(place, names, newSecret(name));
  else await putSecret(given, deployment, place, name);
  const when = deployment === null ? "Start the Worker again to use it for everything new" : "The Worker now uses it for everything new";
  const others = uses.filter(({ used }) => used > 0).map((each) => each.name);
  const works = others.length === 0 ? "" : ` Each ${kind.what} that uses ${others.join(" or ")} continues to work.`;
  await print(given, { place, name }, () => `${place} has a new secret, ${name}. ${when}.${works}`);
}

const heardWithinMs = 120_000;
/** Cloudflare bases a new secret on the version that was uploaded last, and refuses (10214) if this version is not deployed. wrangler then says this. */
const latestNotDeployed = "isn't currently deployed";

/**
 * Uploads a new secret with wrangler, and waits until the Worker has the secret. wrangler neither prints the secret nor stores it on this
 * machine. If the Worker does not have the secret after two minutes, throws `CommandError`.
 */
async function putSecret({ client }: Given, deployment: Deployment, place: string, name: string): Promise<void> {
  await requireSameWorker(deployment);
  const { code, out, err } = await wrangler(["secret", "put", place], deployment, { input: newSecret(name), mayFail: true });
  if ((out + err).includes(latestNotDeployed))
    throw new CommandError(
      "refused",
      "Nothing is changed. The version that was uploaded last does not get all requests, for example after a rollback, and Cloudflare would base the new secret on it. Check out the code that should run, run npm run deploy, and rotate then.",
    );
  if (code !== 0) throw new CommandError("failed", `wrangler secret put failed:\n${out}${err}`);
  for (const until = Date.now() + heardWithinMs; Date.now() < until; await sleep(2000)) {
    const { body } = await client.call("GET", "/secrets");
    if (body.places[place].includes(name)) return;
  }
  throw new CommandError(
    "failed",
    `The Worker does not say that it has the new secret ${name}. Do not rotate again before it does: operator secrets list.`,
  );
}

async function reencrypt(given: Given): Promise<void> {
  let reencrypted = 0;
  for (let hasMore = true; hasMore; ) {
    const { body }: OperatorResponse = await callAgain(given.client, "/secrets/reencrypt", {});
    reencrypted += body.reencrypted;
    hasMore = body.has_more;
  }
  const { body } = await given.client.call("GET", "/secrets");
  const lost = (body.encryption as Use[]).filter(({ is_there }) => !is_there).reduce((sum, { used }) => sum + used, 0);
  const left = lost === 0 ? "" : ` ${counted(lost, "webhook")} could not be read, because the Worker has lost the secret: ${lostSecret}.`;
  await print(given, { reencrypted }, () => `Encrypted with the newest secret: ${counted(reencrypted, "webhook")}.${left}`);
}
