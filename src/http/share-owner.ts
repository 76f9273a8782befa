import { clientNetwork } from "./client-address.ts";
import type { AppContext } from "./context.ts";

/**
 * Who takes a share of what the requests of an isolate have in common: an account, the team of the deployment, or a stranger, by the network of the client.
 * Strangers share only with each other, because anybody can have many networks.
 */
export interface Owner {
  kind: "account" | "stranger" | "team";
  name: string;
}

export const accountOwner = (id: string): Owner => ({ kind: "account", name: id });
export const strangerOf = (c: Pick<AppContext, "req">): Owner => ({ kind: "stranger", name: clientNetwork(c) });
export const team: Owner = { kind: "team", name: "team" };
