import type { Context } from "hono";
import type { Account } from "../accounts/account.ts";
import type { AppEnv } from "../http/context.ts";
import type { Role } from "../identity/roles.ts";
import type { SignedIn } from "../identity/sessions.ts";
import { Failure } from "../lib/errors/failure.ts";

/** The person who views the overview, and the account that the overview shows. */
export interface Visitor {
  account: Account;
  /** All accounts that the visitor can switch between. Several accounts are possible only without sign-in or with Cloudflare Access. */
  accounts: readonly Account[];
  /**
   * The signed-in member, or null if the overview is open to everyone on this machine. In an open overview, every visitor has the rights of
   * an owner.
   */
  signedIn: SignedIn | null;
}

export const roleOf = ({ signedIn }: Visitor): Role => signedIn?.member.role ?? "owner";

/** Returns the page of the team from which the visitor came by a portal link, or null for other visitors. */
export const returnUrlOf = (visitor: Visitor | undefined): string | null => visitor?.signedIn?.session?.returnUrl ?? null;

/** The variables (`c.var`) that page handlers can read, in addition to the variables of every request. */
export interface PageEnv extends AppEnv {
  Variables: AppEnv["Variables"] & {
    visitor: Visitor;
    /** Whether the overview is open to everyone on this machine without sign-in. Only the documentation sets this variable. */
    isOpen: boolean;
  };
}

export type PageContext = Context<PageEnv>;

/** Returns the `id` parameter of the path. */
export const idOf = (c: PageContext): string => c.req.param("id") ?? "";

/** Returns the signed-in member. Throws `not_found` if the overview is open and nobody has signed in. */
export function requireSignedIn(c: PageContext): SignedIn {
  const { signedIn } = c.get("visitor");
  if (!signedIn) throw new Failure("not_found", "Nobody is signed in, because the overview on this machine is open.");
  return signedIn;
}
