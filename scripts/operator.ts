import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { replaceLocalSecret } from "./local-secrets.ts";
import { type Answer, connectToOperator, type OperatorClient } from "./operator-client.ts";
import { newSecret } from "./secrets.ts";
import { wrangler } from "./wrangler.ts";

// `npm run operator`: what the team that runs a deployment does with it. Each command calls the Worker, so that guards are told as D1 is.

type Options = Record<string, string | boolean | undefined>;

interface Given {
  client: OperatorClient;
  /** What stands after the verb. */
  args: readonly string[];
  options: Options;
  isJson: boolean;
}

interface Command {
  /** What stands after the noun, as the help shows it. */
  form: string;
  what: string;
  args: number;
  options?: Record<string, "string" | "boolean">;
  run: (given: Given) => Promise<unknown>;
}

const out = async (text: string): Promise<void> => {
  if (!process.stdout.write(text)) await once(process.stdout, "drain");
};
const note = (text: string): void => void process.stderr.write(`${text}\n`);

/** Prints what was answered: as it came with --json, else as `say` puts it. */
const print = ({ isJson }: Given, body: unknown, say: () => string): Promise<void> =>
  out(`${isJson ? JSON.stringify(body, null, 2) : say()}\n`);

/** Names are made by customers: what steers a terminal is not for it. */
const plain = (text: string): string => text.replaceAll(/\p{Cc}/gu, "?");

/** Rows under their headings, each column as wide as it needs to be. */
function table(headings: readonly string[], rows: readonly (readonly unknown[])[]): string {
  const all = [headings, ...rows].map((row) => row.map((cell) => plain(String(cell ?? "-"))));
  const widths = headings.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** All pages of a list. */
async function listed(client: OperatorClient, path: string): Promise<{ data: Record<string, unknown>[] }> {
  const data: Record<string, unknown>[] = [];
  for (let next: string | null = ""; next !== null; ) {
    const { body }: Answer = await client.call("GET", next === "" ? path : `${path}?after=${encodeURIComponent(next)}`);
    data.push(...body.data);
    next = body.next ?? null;
  }
  return { data };
}

const isTransient = (error: unknown) => error instanceof CommandError && (error.exitCode === exitCodes.unreachable || error.isTransient);

/** Calls again where a piece of long work failed by the way: three times in a row, then it is given up. */
async function callAgain(client: OperatorClient, path: string, body: unknown): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    try {
      return await client.call("POST", path, body);
    } catch (error) {
      if (tries === 3 || !isTransient(error)) throw error;
      await sleep(1000 * tries);
    }
  }
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;

const whole = (text: string | undefined, what: string): number => {
  if (!/^\d{1,9}$/.test(text ?? ""))
    throw new CommandError("misuse", `${what} must be a whole number of at most nine digits, not "${text}".`);
  return Number(text);
};

const required = (options: Options, name: string): string => {
  const value = options[name];
  if (typeof value !== "string" || value.trim() === "") throw new CommandError("misuse", `--${name} is missing.`);
  return value.trim();
};

const at = (given: Given, index: number): string => encodeURIComponent(given.args[index] ?? "");

const accounts: Record<string, Command> = {
  list: {
    form: "list",
    what: "all accounts",
    args: 0,
    run: async (given) => {
      const all = await listed(given.client, "/accounts");
      const row = (each: Record<string, unknown>) => [
        each.id,
        each.status,
        each.limit_ceiling,
        each.keep_days,
        each.activity_database,
        each.name,
      ];
      await print(given, all, () => table(["ID", "STATUS", "CEILING", "KEEP-DAYS", "DATABASE", "NAME"], all.data.map(row)));
    },
  },
  make: {
    form: "make --name NAME --email EMAIL",
    what: "an account, and the link by which its first owner comes in",
    args: 0,
    options: { name: "string", email: "string" },
    run: async (given) => {
      const { name, email } = { name: required(given.options, "name"), email: required(given.options, "email") };
      const { body } = await given.client.call("POST", "/accounts", { name, email });
      await print(given, body, () => `${body.id}\n${body.setup_url}`);
      note("The link works once, for seven days.");
    },
  },
  suspend: {
    form: "suspend ID",
    what: "refuse its keys, hold its deliveries, let its members only look",
    args: 1,
    run: async (given) => {
      const { body } = await given.client.call("POST", `/accounts/${at(given, 0)}/suspend`);
      await print(given, body, () => `Suspended: requests with its keys are refused from now on (told to ${counted(body.keys, "key")}).`);
    },
  },
  resume: {
    form: "resume ID",
    what: "end a suspension",
    args: 1,
    run: async (given) => {
      const { body } = await given.client.call("POST", `/accounts/${at(given, 0)}/resume`);
      await print(
        given,
        body,
        () => `Resumed: its keys work as before (told to ${counted(body.keys, "key")}), and what was held goes out as it is due.`,
      );
    },
  },
  ceiling: {
    form: "ceiling ID LIMIT",
    what: "the highest hourly limit that a key of it may have; keys above are lowered",
    args: 2,
    run: async (given) => {
      const { body } = await given.client.call("PUT", `/accounts/${at(given, 0)}/ceiling`, { limit: whole(given.args[1], "LIMIT") });
      await print(
        given,
        body,
        () =>
          `The ceiling is ${given.args[1]} requests an hour.${body.lowered.length > 0 ? ` Lowered to it: ${body.lowered.join(", ")}.` : ""}`,
      );
    },
  },
  storage: {
    form: "storage ID",
    what: "what it stores, of what it may store",
    args: 1,
    run: async (given) => {
      const { body } = await given.client.call("GET", `/accounts/${at(given, 0)}/storage`);
      const rows = Object.entries(body as Record<string, { stored: number; most: number }>).map(([what, { stored, most }]) => [
        what,
        stored,
        most,
      ]);
      await print(given, body, () => table(["WHAT", "STORED", "MOST"], rows));
    },
  },
  "keep-days": {
    form: "keep-days ID DAYS|default",
    what: "how long its log is kept: 2 to 90 days, or as long as that of others",
    args: 2,
    run: async (given) => {
      const days = given.args[1] === "default" ? null : whole(given.args[1], "DAYS");
      const { body } = await given.client.call("PUT", `/accounts/${at(given, 0)}/keep-days`, { days });
      await print(given, body, () => (days === null ? "Its log is kept as long as that of others." : `Its log is kept for ${days} days.`));
    },
  },
  export: {
    form: "export ID",
    what: "all that there is of it, one JSON object a line, on standard output",
    args: 1,
    run: exportAccount,
  },
  erase: {
    form: "erase ID --yes",
    what: "delete it and all that there is of it, for good",
    args: 1,
    options: { yes: "boolean" },
    run: eraseAccount,
  },
};

const keys: Record<string, Command> = {
  list: {
    form: "list ACCOUNT",
    what: "the keys of an account",
    args: 1,
    run: async (given) => {
      const { body } = await given.client.call("GET", `/accounts/${at(given, 0)}/keys`);
      const row = (each: Record<string, unknown>) => [each.id, each.status, each.hourly_limit, each.last_used_at, each.name];
      await print(given, body, () => table(["ID", "STATUS", "LIMIT", "LAST USED", "NAME"], body.data.map(row)));
    },
  },
  make: {
    form: "make ACCOUNT --name NAME [--scopes a,b] [--limit N]",
    what: "a key; its secret is shown this once",
    args: 1,
    options: { name: "string", scopes: "string", limit: "string" },
    run: async (given) => {
      const { scopes, limit } = given.options;
      const { body } = await given.client.call("POST", `/accounts/${at(given, 0)}/keys`, {
        name: required(given.options, "name"),
        ...(typeof scopes === "string" && { scopes: scopes.split(",").map((scope) => scope.trim()) }),
        ...(typeof limit === "string" && { hourly_limit: whole(limit, "--limit") }),
      });
      await print(given, body, () => body.secret_key);
    },
  },
  limit: {
    form: "limit KEY N",
    what: "how many requests it may make an hour, up to its account's ceiling",
    args: 2,
    run: async (given) => {
      const { body } = await given.client.call("PUT", `/keys/${at(given, 0)}/limit`, { limit: whole(given.args[1], "N") });
      await print(given, body, () => `Its limit is ${given.args[1]} requests an hour.`);
    },
  },
  ...Object.fromEntries(
    (
      [
        ["revoke", "for good", "Revoked: requests with this key are refused from now on."],
        ["disable", "until it is enabled again", "Disabled: requests with this key are refused until it is enabled again."],
        ["enable", "a disabled one", "Enabled."],
      ] as const
    ).map(([verb, what, said]): [string, Command] => [
      verb,
      {
        form: `${verb} KEY`,
        what,
        args: 1,
        run: async (given) => {
          const { body } = await given.client.call("POST", `/keys/${at(given, 0)}/${verb}`);
          await print(given, body, () => said);
        },
      },
    ]),
  ),
};

const nouns: Record<string, Record<string, Command>> = {
  accounts,
  keys,
  owners: {
    link: {
      form: "link ACCOUNT",
      what: "a link by which an owner comes in, for an account that has lost its own; ends the one before",
      args: 1,
      run: async (given) => {
        const { body } = await given.client.call("POST", `/accounts/${at(given, 0)}/owners`);
        await print(given, body, () => body.setup_url);
        note("The link works once, for seven days.");
      },
    },
  },
  guards: {
    "line-up": { form: "line-up", what: "bring all guards in line with D1, after it was set back in time", args: 0, run: lineUp },
  },
  secrets: {
    list: { form: "list", what: "which secrets of the Worker sign how many keys, and seal how many webhooks", args: 0, run: listSecrets },
    rotate: {
      form: "rotate key-signing|webhook-sealing [--env NAME]",
      what: "put a new secret in the place of the older of two that nothing needs any more; it makes what is new from then on",
      args: 1,
      options: { env: "string" },
      run: rotateSecret,
    },
    reseal: { form: "reseal", what: "seal the secrets of all webhooks with the newest secret", args: 0, run: reseal },
  },
  deliveries: {
    backlog: {
      form: "backlog",
      what: "what is still to be sent",
      args: 0,
      run: async (given) => {
        const { body } = await given.client.call("GET", "/deliveries");
        const rows = Object.entries(body as Record<string, unknown>).map(([what, value]) => [what.replaceAll("_", " "), value ?? "none"]);
        await print(given, body, () => table(["WHAT", "NOW"], rows));
      },
    },
    drain: {
      form: "drain [--seconds N]",
      what: "set off what is due, until nothing is or the time (60 s) is over",
      args: 0,
      options: { seconds: "string" },
      run: drain,
    },
  },
  audit: {
    list: {
      form: "list",
      what: "what operators did, the latest first",
      args: 0,
      run: async (given) => {
        const all = await listed(given.client, "/audit");
        const row = (each: Record<string, unknown>) => [
          each.at,
          each.operator,
          each.action,
          each.account_id,
          each.target_id,
          JSON.stringify(each.details),
        ];
        await print(given, all, () => table(["AT", "OPERATOR", "ACTION", "ACCOUNT", "TARGET", "DETAILS"], all.data.map(row)));
      },
    },
  },
};

async function exportAccount(given: Given): Promise<void> {
  let lines = 0;
  for (let next: string | null = ""; next !== null; ) {
    const { text, headers }: Answer = await given.client.call("GET", `/accounts/${at(given, 0)}/export${next && `?after=${next}`}`);
    await out(text);
    lines += text.split("\n").length - 1;
    next = headers.get("X-Next");
  }
  // Without this line, it was broken off.
  await out(`${JSON.stringify({ type: "end", lines })}\n`);
  note(`${counted(lines, "line")}.`);
}

async function eraseAccount(given: Given): Promise<void> {
  const id = given.args[0] ?? "";
  if (given.options.yes !== true)
    throw new CommandError("misuse", `This deletes ${id} and all that there is of it, for good. Take an export first, then say so: --yes`);
  for (;;) {
    const { body } = await callAgain(given.client, `/accounts/${at(given, 0)}/erase`, { confirm: id });
    const counts = Object.entries(body.erased as Record<string, number>);
    if (body.status === "erased") {
      const said = () =>
        `${table(["ERASED", "COUNT"], counts)}\n\n${id} is erased since ${body.finished_at}. The clock looks once more for what was on its way then.\nCloudflare keeps what was before for D1's Time Travel, until ${body.time_travel_until}.`;
      return print(given, body, said);
    }
    note(`Erasing: ${counts.map(([what, count]) => `${count} ${what}`).join(", ") || "its keys are refused"} ...`);
  }
}

async function lineUp(given: Given): Promise<void> {
  const all = { checked: 0, reconciled: [] as string[], revoked: [] as string[], unreachable: [] as string[] };
  for (let after: string | null = ""; after !== null; ) {
    const { body }: Answer = await callAgain(given.client, "/guards/line-up", { after });
    all.checked += body.checked;
    for (const what of ["reconciled", "revoked", "unreachable"] as const) all[what].push(...body[what]);
    after = body.next;
  }
  const named = (what: string, ids: string[]) => (ids.length > 0 ? `\n${what}: ${ids.join(", ")}` : "");
  await print(
    given,
    all,
    () =>
      `Asked: ${counted(all.checked, "guard")}.${named("Rows that took over what their guard knew better", all.reconciled)}${named("Without a row, and refused now", all.revoked)}${named("Not reached", all.unreachable)}`,
  );
  if (all.unreachable.length > 0) throw new CommandError("failed", `${all.unreachable.length} guards could not be reached. Run it again.`);
}

async function listSecrets(given: Given): Promise<void> {
  const { body } = await given.client.call("GET", "/secrets");
  interface Use {
    name: string;
    isNewest: boolean;
    isThere: boolean;
    used: number;
  }
  const row =
    (binding: string, what: string) =>
    ({ name, isNewest, isThere, used }: Use) => [
      binding,
      name,
      isNewest ? "makes what is new" : isThere ? "reads" : "MISSING",
      `${used} ${what}`,
    ];
  const rows = [...body.signing.map(row("KEY_SIGNING_SECRETS", "keys")), ...body.sealing.map(row("WEBHOOK_SEALING_SECRETS", "webhooks"))];
  const unknown = body.unknown_keys > 0 ? `\n${body.unknown_keys} keys are from before it was noted which secret signs them.` : "";
  await print(given, body, () => table(["BINDING", "NAME", "STATE", "USED BY"], rows) + unknown);
}

const rotated: Record<string, { binding: string; list: "signing" | "sealing"; what: string; way: string }> = {
  "key-signing": {
    binding: "KEY_SIGNING_SECRETS",
    list: "signing",
    what: "key",
    way: "Rotate or revoke them first: a key keeps the secret that it was signed with.",
  },
  "webhook-sealing": {
    binding: "WEBHOOK_SEALING_SECRETS",
    list: "sealing",
    what: "webhook",
    way: "Seal them anew first: operator secrets reseal.",
  },
};

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

async function rotateSecret(given: Given): Promise<void> {
  const kind = rotated[given.args[0] ?? ""];
  if (!kind) throw new CommandError("misuse", `There are two to rotate: ${Object.keys(rotated).join(" and ")}.`);
  const { body } = await given.client.call("GET", "/secrets");
  const uses = body[kind.list] as { name: string; isNewest: boolean; used: number }[];
  const newest = uses.find(({ isNewest }) => isNewest)?.name ?? "";
  const places = Object.entries(body.places as Record<string, string[]>).filter(([place]) => place.startsWith(kind.binding));
  const older = places.find(([, names]) => !names.includes(newest));
  if (!older)
    throw new CommandError("refused", `Both places hold the name ${newest}. Give each a name of its own: docs/runbooks/rotate-secrets.md.`);
  const [place, names] = older;
  const used = uses.filter(({ name }) => names.includes(name)).reduce((sum, each) => sum + each.used, 0);
  const unknown = kind.list === "signing" ? body.unknown_keys : 0;
  if (used + unknown > 0)
    throw new CommandError(
      "refused",
      `The older secret (${names.join(", ")}) is still needed by ${counted(used + unknown, kind.what)}. ${kind.way}`,
    );
  const name = base62[base62.indexOf(newest) + 1];
  if (name === undefined)
    throw new CommandError("refused", "There is no later name than z. Name both places anew: docs/runbooks/rotate-secrets.md.");
  const isLocal = typeof given.options.remote !== "string";
  if (isLocal) replaceLocalSecret(place, names, newSecret(name));
  else await putSecret(given, place, name);
  const when = isLocal ? "Start the Worker again: from then on it makes what is new" : "It makes what is new from now on";
  await print(given, { place, name }, () => `${place} holds a new secret, ${name}. ${when}, and ${newest} still reads.`);
}

const heardWithinMs = 120_000;

/** Has wrangler upload a new secret, which neither prints nor keeps it, and waits until the Worker has it. */
async function putSecret({ client, options }: Given, place: string, name: string): Promise<void> {
  const env = typeof options.env === "string" ? ["--env", options.env] : [];
  await wrangler(["secret", "put", place, ...env], { input: newSecret(name) });
  for (const until = Date.now() + heardWithinMs; Date.now() < until; await sleep(2000)) {
    const { body } = await client.call("GET", "/secrets");
    if (body.places[place].includes(name)) return;
  }
  throw new CommandError(
    "failed",
    `The Worker does not say that it has the new secret ${name}. Do not rotate again before it does: operator secrets list.`,
  );
}

async function reseal(given: Given): Promise<void> {
  let resealed = 0;
  for (let hasMore = true; hasMore; ) {
    const { body }: Answer = await callAgain(given.client, "/secrets/reseal", {});
    resealed += body.resealed;
    hasMore = body.has_more;
  }
  await print(given, { resealed }, () => `Sealed anew: ${counted(resealed, "webhook")}.`);
}

async function drain(given: Given): Promise<void> {
  const seconds = given.options.seconds === undefined ? 60 : whole(String(given.options.seconds), "--seconds");
  const until = Date.now() + 1000 * seconds;
  let [enqueued, due] = [0, 0];
  for (let [after, goesOn] = ["", false]; ; goesOn = true) {
    const { body } = await callAgain(given.client, "/deliveries/drain", { after, goes_on: goesOn });
    enqueued += body.enqueued;
    due = body.due;
    after = body.next ?? "";
    if (due === 0 || Date.now() > until) break;
    note(`${due > 100_000 ? "more than 100000" : due} deliveries are due ...`);
    await sleep(after === "" ? 1000 : 0);
  }
  await print(given, { enqueued, due }, () => (due === 0 ? "Nothing is due." : `${due} deliveries are due still.`));
  if (due > 0) throw new CommandError("failed", "Each webhook has ten attempts in flight at most, and a slow receiver takes its time.");
}

const head = "npm run --silent operator --";

function helpOf(noun?: string): string {
  const shown = noun === undefined ? Object.entries(nouns) : Object.entries(nouns).filter(([name]) => name === noun);
  const forms = shown.flatMap(([name, verbs]) => Object.values(verbs).map(({ form, what }) => [`${name} ${form}`, what] as const));
  const width = Math.max(...forms.map(([form]) => form.length));
  return `Usage: ${head} <noun> <verb> [--json] [--remote URL]

${forms.map(([form, what]) => `  ${form.padEnd(width)}  ${what}`).join("\n")}

  --json        the answer as JSON
  --remote URL  a deployed Worker, with the token in OPERATOR_TOKEN; without it, the one that \`npm start\` runs

It ends with 0 done, 1 failed, 2 called wrongly, 3 unreachable, 4 refused.`;
}

const misuse = (message: string, noun?: string): CommandError => new CommandError("misuse", `${message}\n\n${helpOf(noun)}`);

async function run(argv: string[]): Promise<void> {
  const [noun, verb, ...rest] = argv.filter((arg) => arg !== "--help" && arg !== "-h");
  const isHelp = argv.includes("--help") || argv.includes("-h") || noun === "help";
  if (isHelp) return out(`${helpOf(noun && nouns[noun] ? noun : undefined)}\n`);
  if (noun === undefined || noun.startsWith("-")) throw misuse("Name what to work on, and what to do with it.");
  const verbs = nouns[noun];
  if (!verbs) throw misuse(`There is no "${noun}".`);
  const command = verb === undefined ? undefined : verbs[verb];
  if (!command) throw misuse(verb === undefined ? `Name what to do with ${noun}.` : `There is no "${noun} ${verb}".`, noun);
  const own = Object.fromEntries(Object.entries(command.options ?? {}).map(([name, type]) => [name, { type }]));
  let parsed: { values: Options; positionals: string[] };
  try {
    const options = { ...own, json: { type: "boolean" as const }, remote: { type: "string" as const } };
    parsed = parseArgs({ args: rest, options, strict: true, allowPositionals: true }) as typeof parsed;
  } catch (error) {
    throw misuse((error as Error).message, noun);
  }
  const { values, positionals } = parsed;
  if (positionals.length !== command.args) throw misuse(`It is called: ${noun} ${command.form}`, noun);
  const client = connectToOperator(typeof values.remote === "string" ? values.remote : undefined);
  await command.run({ client, args: positionals, options: values, isJson: values.json === true });
}

// What reads our output may have had enough of it.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : exitCodes.failed));

run(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof CommandError ? error.message : error);
  process.exitCode = error instanceof CommandError ? error.exitCode : exitCodes.failed;
});
