import { at, type Command, listed, note, print, required, table } from "./command.ts";

const listIn = (value: string | boolean | undefined) =>
  typeof value === "string"
    ? value
        .split(",")
        .map((each) => each.trim())
        .filter(Boolean)
    : undefined;

const rowOf = (token: Record<string, unknown>) => [
  token.id,
  (token.scopes as string[]).join(","),
  (token.accounts as string[] | null)?.join(",") ?? "all",
  token.expires_at,
  token.last_used_at,
  token.name,
];

export const tokens: Record<string, Command> = {
  list: {
    form: "list",
    what: "list the service tokens, with their last use",
    args: 0,
    run: async (given) => {
      const all = await listed(given.client, "/tokens");
      await print(given, all, () => table(["ID", "SCOPES", "ACCOUNTS", "EXPIRES", "LAST USED", "NAME"], all.data.map(rowOf)));
    },
  },
  make: {
    form: "make --name NAME --scopes a,b [--accounts ID,ID] [--expires TIME]",
    what: "make a service token for a program, and print it once",
    args: 0,
    options: { name: "string", scopes: "string", accounts: "string", expires: "string" },
    run: async (given) => {
      const { accounts, expires } = given.options;
      const { body } = await given.client.call("POST", "/tokens", {
        name: required(given.options, "name"),
        scopes: listIn(required(given.options, "scopes")),
        ...(accounts !== undefined && { accounts: listIn(accounts) }),
        ...(expires !== undefined && { expires_at: expires }),
      });
      await print(given, body, () => body.token);
      note(`The id of the token is ${body.id}. The token itself is not shown again.`);
    },
  },
  revoke: {
    form: "revoke ID",
    what: "revoke a service token permanently, and the tokens that it created",
    args: 1,
    run: async (given) => {
      await given.client.call("DELETE", `/tokens/${at(given, 0)}`);
      await print(
        given,
        { id: given.args[0] },
        () => "Revoked, with the tokens that it created. Requests with them are denied within five seconds.",
      );
    },
  },
};
