import type { Context } from "hono";
import type { Account } from "../accounts/account.ts";
import { Failure } from "../errors/failure.ts";
import type { AppEnv } from "../http/context.ts";
import type { Role } from "../identity/roles.ts";
import type { SignedIn } from "../identity/sessions.ts";

/** Who looks at the pages, and at whose account. */
export interface Visitor {
  account: Account;
  /** All accounts that may be chosen between: on a laptop, and by members of several who come through Cloudflare Access. */
  accounts: readonly Account[];
  /** The member who signed in; null where the overview is open to everyone at the machine. They then have the rights of an owner. */
  signedIn: SignedIn | null;
}

export const roleOf = ({ signedIn }: Visitor): Role => signedIn?.member.role ?? "owner";

/** What handlers of pages find in `c.var`, besides what all requests have. */
export interface PageEnv extends AppEnv {
  Variables: AppEnv["Variables"] & {
    visitor: Visitor;
    /** Whether nobody signs in, because the overview is open to everyone at the machine. Set for pages without a visitor. */
    isOpen: boolean;
  };
}

export type PageContext = Context<PageEnv>;

/** The id that a page's path carries. */
export const idOf = (c: PageContext): string => c.req.param("id") ?? "";

/** The visitor who has signed in. Throws `not_found` where the overview is open, and nobody has. */
export function requireSignedIn(c: PageContext): SignedIn {
  const { signedIn } = c.get("visitor");
  if (!signedIn) throw new Failure("not_found", "Nobody has signed in: on this machine the overview is open.");
  return signedIn;
}
