import { CommandError } from "../exit-codes.ts";
import type { OperatorResponse } from "../operator-client.ts";
import {
  action,
  at,
  type Command,
  callAgain,
  changeAccount,
  counted,
  type Given,
  limitsIn,
  limitsInWords,
  limitsOf,
  listed,
  listing,
  note,
  out,
  pagesOf,
  print,
  required,
  sameTarget,
  table,
  whole,
} from "./command.ts";

const mib = 1024 * 1024;

/** Returns a command that changes terms of an account. `terms` returns the members of the PATCH request for the second argument. */
const setting = (form: string, what: string, terms: (value: string) => object, said: (body: OperatorResponse["body"]) => string): Command =>
  action({ form, what, args: 2, send: (given) => changeAccount(given, terms(given.args[1] ?? "")), said });

const saidTerms = ({ plan_id: plan, limits, lowered }: OperatorResponse["body"]): string =>
  `Plan: ${plan ?? "none"}. Limits of all keys together: ${limitsInWords(limits)}.${lowered.length > 0 ? ` Keys with lower limits now: ${lowered.join(", ")}.` : ""}`;

export const accounts: Record<string, Command> = {
  list: listing({
    form: "list",
    what: "list all accounts",
    path: () => "/accounts",
    members: ["id", "status", "limit_ceiling", "retention_days", "activity_database", "plan_id", "limits", "name"],
  }),
  make: action({
    form: "make --name NAME --email EMAIL [--external-id ID]",
    what: "create an account, and print the setup link for its first owner",
    args: 0,
    options: { name: "string", email: "string", "external-id": "string" },
    send: ({ client, options }) =>
      client.call("POST", "/accounts", {
        name: required(options, "name"),
        email: required(options, "email"),
        ...(options["external-id"] !== undefined && { external_id: options["external-id"] }),
      }),
    said: (body) => `${body.id}\n${body.setup_url}`,
    noted: () => "The link works once, for seven days.",
  }),
  find: listing({
    form: "find [--external-id ID] [--email EMAIL] [--text TEXT]",
    what: "find accounts by external id, by email address, or by a text in their name, email address or external id",
    path: () => "/accounts",
    members: ["id", "status", "external_id", "email", "name"],
    filters: { "external-id": ["external_id"], email: ["email"], text: ["q"] },
    needsFilter: true,
  }),
  "external-id": setting(
    "external-id ID EXTERNAL|none",
    "set the id of the account in your own system",
    (value) => ({ external_id: value === "none" ? null : value }),
    (body) => `External id: ${body.external_id ?? "none"}.`,
  ),
  "max-keys": setting(
    "max-keys ID N",
    "set how many live keys the account may have, from 1 to 1000",
    (value) => ({ max_live_keys: whole(value, "N") }),
    (body) => `The account may have ${counted(body.max_live_keys, "live key")}.`,
  ),
  "on-unavailable": setting(
    "on-unavailable ID deny|known",
    "set what verify does with a request while the guard of its key cannot be reached",
    (value) => ({ on_unavailable: value }),
    (body) => `While a guard cannot be reached: ${body.on_unavailable}.`,
  ),
  suspend: action({
    form: "suspend ID [--reason TEXT]",
    what: "deny requests with the account's keys, hold its deliveries, and let its members only read",
    options: { reason: "string" },
    send: (given) =>
      given.client.call(
        "POST",
        `/accounts/${at(given, 0)}/suspend`,
        given.options.reason === undefined ? undefined : { reason: given.options.reason },
      ),
    said: ({ keys }) => `Suspended. Requests with the account's keys are now denied (${counted(keys, "key")}).`,
  }),
  resume: action({
    form: "resume ID",
    what: "end a suspension",
    send: (given) => given.client.call("POST", `/accounts/${at(given, 0)}/resume`),
    said: ({ keys }) => `Resumed. The account's keys work again (${counted(keys, "key")}), and held deliveries are sent when they are due.`,
  }),
  limits: {
    form: "limits ID PERIOD=N,...|none",
    what: "set the account's own limits, which all its keys share, for example hour=5000; a period that you leave out is as in its plan",
    args: 2,
    run: async (given) => {
      const limits = limitsIn(given.args[1] ?? "");
      const { body: before } = await given.client.call("GET", `/accounts/${at(given, 0)}`);
      const own = limitsOf(before.own_limits);
      const { body } = await changeAccount(given, { limits });
      await print(given, body, () => saidTerms(body));
      note(
        `Before: ${limitsInWords(before.limits)}. To undo: operator accounts limits ${given.args[0]} ${own || "none"}${sameTarget(given)}`,
      );
    },
  },
  plan: setting("plan ID PLAN|none", "give the account a plan", (plan) => ({ plan_id: plan === "none" ? null : plan }), saidTerms),
  ceiling: {
    form: "ceiling ID LIMIT",
    what: "set the highest hourly limit of the account's keys, and lower the keys above it",
    args: 2,
    run: setCeiling,
  },
  storage: action({
    form: "storage ID",
    what: "show how much the account stores, and its limits",
    send: (given) => given.client.call("GET", `/accounts/${at(given, 0)}/storage`),
    said: ({ dropped_events: _, ...stores }: Record<string, { stored: number; most: number }>) =>
      table(
        ["WHAT", "STORED", "LIMIT"],
        Object.entries(stores).map(([what, { stored, most }]) => [what, stored, most]),
      ),
    noted: ({ dropped_events: dropped }) =>
      dropped > 0 ? `${dropped} events were not stored, because the account had used up its storage.` : null,
  }),
  "storage-quota": action({
    form: "storage-quota ID MIB|default",
    what: "set how much the account may store in the main database, in MiB",
    args: 2,
    send: (given) => {
      const bytes = given.args[1] === "default" ? null : whole(given.args[1], "MIB") * mib;
      return given.client.call("PUT", `/accounts/${at(given, 0)}/storage-quota`, { bytes });
    },
    said: (body) => `It may store ${body.storage_quota_bytes / mib} MiB.`,
  }),
  "retention-days": setting(
    "retention-days ID DAYS|default",
    "set the retention of the account's log, from 2 to 90 days",
    (value) => ({ retention_days: value === "default" ? null : whole(value, "DAYS") }),
    (body) => `The retention of the account's log is ${body.retention_days === null ? "the default" : `${body.retention_days} days`}.`,
  ),
  export: {
    form: "export ID",
    what: "print all data of the account, one JSON object per line",
    args: 1,
    run: exportAccount,
  },
  erase: {
    form: "erase ID --yes",
    what: "permanently delete the account and all its data",
    args: 1,
    options: { yes: "boolean" },
    run: eraseAccount,
  },
};

async function exportAccount(given: Given): Promise<void> {
  let lines = 0;
  for await (const text of pagesOf(given, `/accounts/${at(given, 0)}/export`)) {
    await out(text);
    lines += text.split("\n").length - 1;
  }
  // If an export does not end with a line of type `end`, the export is incomplete.
  await out(`${JSON.stringify({ type: "end", lines })}\n`);
  note(`${counted(lines, "line")}.`);
}

interface ListedKey {
  id: string;
  limits: { per: string; limit: number }[];
  limits_from: "key" | "plan";
}

async function setCeiling(given: Given): Promise<void> {
  const limit = whole(given.args[1], "LIMIT");
  if (limit === 0) throw new CommandError("misuse", "LIMIT must be at least 1. To stop all keys of the account, suspend it.");
  const keys = async () => (await listed(given.client, `/accounts/${at(given, 0)}/keys`)).data as unknown as ListedKey[];
  const { body: account } = await given.client.call("GET", `/accounts/${at(given, 0)}`);
  const before = await keys();
  const { body } = await changeAccount(given, { limit_ceiling: limit });
  const after = new Map((await keys()).map(({ id, limits }) => [id, limitsOf(limits)]));
  const changed = before.filter(({ id, limits }) => after.get(id) !== limitsOf(limits));
  const ids = changed.map(({ id }) => id);
  await print(
    given,
    body,
    () => `The ceiling is ${limit} requests an hour.${ids.length > 0 ? ` The limits of these keys changed: ${ids.join(", ")}.` : ""}`,
  );
  // The other keys follow the ceiling back by themselves.
  const own = changed.filter(({ limits_from: from }) => from === "key");
  const again = own.map(({ id, limits }) => `operator keys limits ${id} ${limitsOf(limits)}${sameTarget(given)}`);
  note(["To undo:", `operator accounts ceiling ${given.args[0]} ${account.limit_ceiling}${sameTarget(given)}`, ...again].join("\n  "));
}

async function eraseAccount(given: Given): Promise<void> {
  const id = given.args[0] ?? "";
  if (given.options.yes !== true)
    throw new CommandError("misuse", `This permanently deletes ${id} and all its data. Export the account first, then add --yes.`);
  for (;;) {
    const { body } = await callAgain(given.client, `/accounts/${at(given, 0)}/erase`, { confirm: id });
    const counts = Object.entries(body.erased as Record<string, number>);
    if (body.status === "erased") {
      const said = () =>
        `${table(["ERASED", "COUNT"], counts)}\n\n${id} was erased at ${body.finished_at}. A scheduled job will check once more for data that was in flight at that time.\nCloudflare keeps the erased data for D1's Time Travel until ${body.time_travel_until}.`;
      return print(given, body, said);
    }
    note(`Erasing: ${counts.map(([what, count]) => `${count} ${what}`).join(", ") || "requests with its keys are denied"} ...`);
  }
}
