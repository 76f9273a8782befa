import type { ReadContext } from "../accounts/actor.ts";
import { listAudit, type ReadAuditEntry } from "../audit/audit.ts";
import { timeOfId } from "../ids/ids.ts";
import type { Span } from "../usage/windows.ts";
import type { Mark } from "./components/requests-chart.tsx";

const looksAt = 200;
const maxMarks = 6;

/** Returns the chart annotation for an audit entry, or null for an action that charts do not show. */
function textOf({ action, changes, targetName, targetId }: ReadAuditEntry): string | null {
  const name = `“${targetName ?? targetId}”`;
  if (action === "key.revoked") return `key ${name} revoked`;
  if (action === "key.disabled") return `key ${name} disabled`;
  if (action === "webhook.disabled") return `webhook ${name} disabled`;
  if (action === "key.updated" && changes.some((change) => change === "hourly_limit" || change === "limits"))
    return `limit of key ${name} changed`;
  return null;
}

/**
 * Returns the latest changes in a window that may have affected the number of requests, or that of one key. The oldest change comes first.
 */
export async function readAnnotations(context: ReadContext, { from, to }: Span, keyId?: string): Promise<Mark[]> {
  const { rows: entries } = await listAudit(context, { filter: { from, to, target: keyId }, limit: looksAt });
  const marks = entries.flatMap((entry) => {
    const text = textOf(entry);
    return text === null ? [] : [{ timeMs: timeOfId(entry.id), text }];
  });
  return marks.slice(0, maxMarks).toReversed();
}
