import { CommandError } from "../exit-codes.ts";
import { action, at, type Command, listing, required } from "./command.ts";

/** Returns the bounds in a text like 45 or 32-64. */
function lengthsIn(text: string): { min_length: number; max_length: number } {
  const [, min, max = min] = /^(\d+)(?:-(\d+))?$/.exec(text) ?? [];
  if (min === undefined) throw new CommandError("misuse", `--length takes a number or a range, for example 45 or 32-64, not ${text}.`);
  return { min_length: Number(min), max_length: Number(max) };
}

export const forms: Record<string, Command> = {
  list: listing({
    form: "list",
    what: "list the forms of imported keys",
    path: () => "/key-forms",
    members: ["id", "prefix", "min_length", "max_length", "alphabet", "created_at"],
  }),
  make: action({
    form: "make PREFIX --length N|MIN-MAX --alphabet NAME",
    what: "register what imported keys look like. Text of no registered form is never looked up",
    options: { length: "string", alphabet: "string" },
    send: (given) =>
      given.client.call("POST", "/key-forms", {
        prefix: given.args[0],
        ...lengthsIn(required(given.options, "length")),
        alphabet: required(given.options, "alphabet"),
      }),
    said: (body) => body.id,
    noted: () => "Imported keys of this form work everywhere after ten seconds.",
  }),
  delete: action({
    form: "delete ID",
    what: "delete a form. Imported keys of this form are then denied, unless another form fits",
    send: (given) => given.client.call("DELETE", `/key-forms/${at(given, 0)}`),
    said: () => "Deleted.",
  }),
};
