import { action, at, type Command, listing, required } from "./command.ts";

const listIn = (value: string | boolean | undefined) =>
  typeof value === "string"
    ? value
        .split(",")
        .map((each) => each.trim())
        .filter(Boolean)
    : undefined;

export const tokens: Record<string, Command> = {
  list: listing({
    form: "list",
    what: "list the service tokens, with their last use",
    path: () => "/tokens",
    members: ["id", "scopes", "accounts", "expires_at", "last_used_at", "name"],
    absent: { accounts: "all" },
  }),
  make: action({
    form: "make --name NAME --scopes a,b [--accounts ID,ID] [--expires TIME]",
    what: "make a service token for a program, and print it once",
    args: 0,
    options: { name: "string", scopes: "string", accounts: "string", expires: "string" },
    send: ({ client, options }) =>
      client.call("POST", "/tokens", {
        name: required(options, "name"),
        scopes: listIn(required(options, "scopes")),
        ...(options.accounts !== undefined && { accounts: listIn(options.accounts) }),
        ...(options.expires !== undefined && { expires_at: options.expires }),
      }),
    said: (body) => body.token,
    noted: (body) => `The id of the token is ${body.id}. The token itself is not shown again.`,
  }),
  revoke: action({
    form: "revoke ID",
    what: "revoke a service token permanently, and the tokens that it created",
    send: (given) => given.client.call("DELETE", `/tokens/${at(given, 0)}`),
    said: () => "Revoked, with the tokens that it created. Requests with them are denied within five seconds.",
  }),
};
