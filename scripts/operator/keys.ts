import { CommandError } from "../exit-codes.ts";
import { action, at, type Command, type Given, limitsIn, limitsInWords, listing, print, required, whole } from "./command.ts";

/**
 * Returns the id of the key that `text` identifies. `text` can be the id (`key_` and 16 characters), the form in logs (`dvo_` and the same
 * 16 characters), or a whole secret key. Returns null for any other text.
 */
export const keyIdIn = (text: string): string | null => {
  const [, id] = /^(?:key|dvo)_([0-9A-Za-z]{16})(?![0-9A-Za-z])/.exec(text.trim()) ?? [];
  return id === undefined ? null : `key_${id}`;
};

/**
 * Returns the id of the key in the first argument. If the argument is a whole secret key, the command sends only the id from that key to
 * the Worker. Throws `CommandError` if the argument is not a key.
 */
function keyOf({ args }: Given): string {
  const id = keyIdIn(args[0] ?? "");
  if (id === null) throw new CommandError("misuse", "KEY takes the id of a key (key_...), or the beginning of its secret (dvo_...).");
  return id;
}

/** Prints all limits that the key has now. A plan can add some to those that were named. */
async function printLimits(given: Given): Promise<void> {
  const { body } = await given.client.call("GET", `/keys/${keyOf(given)}`);
  const { limits, limits_from: from } = body;
  const whose = from === "plan" ? " They change with those of its account." : "";
  await print(given, { limits, limits_from: from }, () => `The key's limits are ${limitsInWords(limits)}.${whose}`);
}

/** Returns a command that changes the state of a key. */
const changing = (verb: string, what: string, said: string): Command =>
  action({ form: `${verb} KEY`, what, send: (given) => given.client.call("POST", `/keys/${keyOf(given)}/${verb}`), said: () => said });

export const keys: Record<string, Command> = {
  list: listing({
    form: "list ACCOUNT",
    what: "list the keys of an account",
    args: 1,
    path: (given) => `/accounts/${at(given, 0)}/keys`,
    members: ["id", "status", "limits", "last_used_at", "name"],
  }),
  make: action({
    form: "make ACCOUNT --name NAME [--scopes a,b] [--limit N]",
    what: "create a key, and print its secret once",
    options: { name: "string", scopes: "string", limit: "string" },
    send: (given) => {
      const { scopes, limit } = given.options;
      return given.client.call("POST", `/accounts/${at(given, 0)}/keys`, {
        name: required(given.options, "name"),
        ...(typeof scopes === "string" && { scopes: scopes.split(",").map((scope) => scope.trim()) }),
        ...(typeof limit === "string" && { hourly_limit: whole(limit, "--limit") }),
      });
    },
    said: (body) => body.secret_key,
  }),
  limits: {
    form: "limits KEY PERIOD=N,... | plan",
    what: "replace the limits of a key, for example second=20,hour=5000,month=100000, or give it those of its plan",
    args: 2,
    run: async (given) => {
      if (given.args[1] === "plan") {
        await given.client.call("PATCH", `/keys/${keyOf(given)}`, { limits_from: "plan" });
        return printLimits(given);
      }
      const limits = limitsIn(given.args[1] ?? "");
      if (limits.length === 0) throw new CommandError("misuse", "A key always has a limit per hour. Name it, for example hour=5000.");
      await given.client.call("PUT", `/keys/${keyOf(given)}/limits`, { limits });
      await printLimits(given);
    },
  },
  limit: {
    form: "limit KEY N",
    what: "set the hourly limit of a key, up to the ceiling of its account",
    args: 2,
    run: async (given) => {
      await given.client.call("PUT", `/keys/${keyOf(given)}/limit`, { limit: whole(given.args[1], "N") });
      await printLimits(given);
    },
  },
  revoke: changing("revoke", "revoke a key permanently", "Revoked. Requests with this key are now denied."),
  disable: changing(
    "disable",
    "disable a key until it is enabled again",
    "Disabled. Requests with this key are denied until it is enabled again.",
  ),
  enable: changing("enable", "enable a disabled key", "Enabled."),
};
