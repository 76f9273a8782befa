import { maskPath, maskSecrets } from "../../credentials/mask-keys.ts";
import { type LeaseReceipt, leaseReceiptOf } from "../../credentials/receipt.ts";
import { signingSecrets } from "../../credentials/signing-secrets.ts";
import { timeOfId } from "../../lib/ids.ts";
import { openMs } from "../../log/entry.ts";
import type { ReportAnswer } from "./answers.ts";
import { describedIn } from "./described.ts";
import { leaseUses } from "./lease-uses.ts";
import { entryOf, notSigned, outcomes, reportOf, store } from "./reports.ts";
import { reportIn } from "./schemas.ts";

/** A process of the team that holds leases. `issuer`: the token that the leases were given to. */
export interface Holder {
  issuer: string;
  accountIds: readonly string[] | null;
}

/**
 * Adds the requests that a process of the team has decided by its leases to the log. Returns one answer for each entry, in order. An entry is stored once. It is
 * 422 if its lease was not given to the token of the caller, or has no units left.
 */
export function storeEntries(env: Env, { issuer, accountIds }: Holder, rows: readonly unknown[]): Promise<ReportAnswer[]> {
  const now = Date.now();
  const signing = signingSecrets(env);
  return store(
    env,
    rows.map((row) => {
      const { id, lease: text, ...request } = (row ?? {}) as Record<string, unknown>;
      const lease = leaseReceiptOf(typeof text === "string" ? text : "", signing);
      const isOwn = lease?.issuer === issuer && (accountIds?.includes(lease.accountId) ?? true);
      if (!lease || !isOwn || typeof id !== "string" || !/^req_[0-9a-f]{12}7[0-9a-f]{19}$/.test(id)) return notSigned;
      const { method = "-", path = "-", route = "-", ip, user_agent: userAgent, cost = 1 } = describedIn(request);
      if (now > lease.until + openMs) return outcomes.closed;
      if (!leaseUses.use(lease, id, cost)) return notSigned;
      const { accountId, logWriter, keyId, secret } = lease;
      const about = { method, path: maskPath(path), route: maskSecrets(route, 200), ip: ip || null, cost: cost === 1 ? null : cost };
      const entry = entryOf({ accountId, logWriter, entryId: withTime(id, lease), keyId, ...about, counted: true, secret });
      const response = reportIn({ ...request, route: undefined });
      // A proxy that asks before a request runs does not know the response.
      const status = request.status === undefined ? null : response.status;
      return { logWriter, report: reportOf({ ...entry, userAgent: userAgent ?? null }, { ...response, status }) };
    }),
  );
}

/** Returns an id whose time lies within its lease. The same id always becomes the same one, so that an entry that is sent again is stored once. */
function withTime(id: string, { from, until }: Pick<LeaseReceipt, "from" | "until">): string {
  const time = Math.min(until, Math.max(from, timeOfId(id)));
  return `req_${time.toString(16).padStart(12, "0")}${id.slice("req_".length + 12)}`;
}
