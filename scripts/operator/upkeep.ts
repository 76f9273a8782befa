import { setTimeout as sleep } from "node:timers/promises";
import { CommandError } from "../exit-codes.ts";
import type { OperatorResponse } from "../operator-client.ts";
import { action, at, type Command, callAgain, counted, type Given, listing, note, print, table, whole } from "./command.ts";
import { keyIdIn } from "./keys.ts";

export const owners: Record<string, Command> = {
  link: action({
    form: "link ACCOUNT",
    what: "print a setup link for an account that has lost its owners, and end the previous link",
    send: (given) => given.client.call("POST", `/accounts/${at(given, 0)}/owners`),
    said: (body) => body.setup_url,
    noted: () => "The link works once, for seven days.",
  }),
};

export const guards: Record<string, Command> = {
  reconcile: {
    form: "reconcile",
    what: "reconcile all keys with their guards, after D1 was restored to an earlier time",
    args: 0,
    run: reconcileGuards,
  },
};

export const deliveries: Record<string, Command> = {
  backlog: action({
    form: "backlog",
    what: "show the deliveries that are still to be sent",
    args: 0,
    send: ({ client }) => client.call("GET", "/deliveries"),
    said: (body) =>
      table(
        ["WHAT", "NOW"],
        Object.entries(body).map(([what, value]) => [what.replaceAll("_", " "), value ?? "none"]),
      ),
  }),
  drain: {
    form: "drain [--seconds N]",
    what: "start due deliveries until none is due or N seconds have passed (default 60)",
    args: 0,
    options: { seconds: "string" },
    run: drain,
  },
};

export const alerts: Record<string, Command> = {
  test: {
    form: "test",
    what: "post an alert that begins and ends to ALERT_URL",
    args: 0,
    run: async (given) => {
      const { body } = await given.client.call("POST", "/alerts/test");
      if (body.problem !== null)
        throw new CommandError(
          "failed",
          `The test failed${body.posted > 0 ? ` after ${counted(body.posted, "message")}` : ""}: ${body.problem}`,
        );
      await print(given, body, () => `The receiver took ${counted(body.posted, "message")}: an alert that begins, and its end.`);
    },
  },
};

export const audit: Record<string, Command> = {
  list: listing({
    form: "list [--account ID] [--operator NAME] [--action ACTION] [--target ID] [--from TIME] [--to TIME]",
    what: "list the actions of operators, latest first; an action can be cut after its first word, for example account",
    path: () => "/audit",
    members: ["at", "operator", "token_id", "action", "account_id", "target_id", "details"],
    filters: {
      account: ["account_id"],
      operator: ["operator"],
      action: ["action"],
      target: ["target_id", (text) => keyIdIn(text) ?? text],
      from: ["from"],
      to: ["to"],
    },
  }),
};

async function reconcileGuards(given: Given): Promise<void> {
  const all = { checked: 0, accounts: [] as string[], reconciled: [] as string[], revoked: [] as string[], unreachable: [] as string[] };
  for (let after: string | null = ""; after !== null; ) {
    const { body }: OperatorResponse = await callAgain(given.client, "/guards/reconcile", { after });
    all.checked += body.checked;
    for (const what of ["accounts", "reconciled", "revoked", "unreachable"] as const) all[what].push(...body[what]);
    after = body.next;
  }
  const named = (what: string, ids: string[]) => (ids.length > 0 ? `\n${what}: ${ids.join(", ")}` : "");
  await print(
    given,
    all,
    () =>
      `Checked: ${counted(all.checked, "guard")}.${named("Rows updated from their guards", all.reconciled)}${named("Accounts whose limits were set as their rows say", [...new Set(all.accounts)])}${named("Keys without a row, now revoked", all.revoked)}${named("Not reached", all.unreachable)}`,
  );
  if (all.unreachable.length > 0)
    throw new CommandError("failed", `${all.unreachable.length} guards could not be reached. Run the command again.`);
}

async function drain(given: Given): Promise<void> {
  const seconds = given.options.seconds === undefined ? 60 : whole(String(given.options.seconds), "--seconds");
  const until = Date.now() + 1000 * seconds;
  let [enqueued, due] = [0, 0];
  for (let after = ""; ; ) {
    const { body } = await callAgain(given.client, "/deliveries/drain", { after });
    enqueued += body.enqueued;
    due = body.due;
    after = body.next ?? "";
    if (due === 0 || Date.now() > until) break;
    note(`${due > 100_000 ? "more than 100000" : due} deliveries are due ...`);
    await sleep(after === "" ? 1000 : 0);
  }
  await print(given, { enqueued, due }, () => (due === 0 ? "Nothing is due." : `${due} deliveries are still due.`));
  if (due > 0)
    throw new CommandError("failed", "At most ten attempts of a webhook are in flight at once, so slow receivers need more time.");
}
