import { Hono } from "hono";
import { timeOfId } from "../../../lib/ids.ts";
import { iso } from "../../../lib/time/clock.ts";
import { type AuditFilter, actorNameOf, listAudit, type ReadAuditEntry } from "../../../outbox/audit.ts";
import { needs } from "../../access/needs.ts";
import { Columns } from "../../components/columns.tsx";
import { FilterField, Submit } from "../../components/fields.tsx";
import { showPage } from "../../components/layout.tsx";
import { Empty } from "../../components/notice.tsx";
import { SettingsTabs } from "../../components/settings-tabs.tsx";
import { Moment } from "../../components/time.tsx";
import type { PageContext, PageEnv } from "../../context.ts";
import { csvHeaders, csvOf, csvTitle, readRows } from "../../csv.ts";
import { contextOf } from "../../operation-contexts.ts";

const shownAtOnce = 50;

/** Parses a time in the query string. Returns undefined if the text is not a time. */
const timeIn = (text = ""): number | undefined => (Number.isNaN(Date.parse(text)) ? undefined : Date.parse(text));

const filterOf = (c: PageContext): AuditFilter => ({
  action: c.req.query("action") || undefined,
  actor: c.req.query("actor") || undefined,
  target: c.req.query("target") || undefined,
  from: timeIn(c.req.query("from")),
  to: timeIn(c.req.query("to")),
});

export const auditPages = new Hono<PageEnv>();

auditPages.get("/settings/audit", needs("audit"), async (c) => {
  const filter = filterOf(c);
  const { rows: shown, next } = await listAudit(contextOf(c), { filter, after: c.req.query("after"), limit: shownAtOnce });
  const query = (more: Record<string, string>) =>
    new URLSearchParams(
      Object.entries({ ...filter, ...more }).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, typeof value === "number" ? iso(value) : value]],
      ),
    ).toString();
  return showPage(
    c,
    {
      title: "Audit log",
      section: "Settings",
      trail: [["Settings", "/settings"]],
      action: (
        <a class="button" href={`/settings/audit.csv?${query({})}`} title={csvTitle}>
          Download CSV
        </a>
      ),
    },
    <>
      <SettingsTabs visitor={c.get("visitor")} here="Audit" />
      <form class="panel filter" method="get" action="/settings/audit">
        <FilterField name="action" label="Action" value={filter.action} placeholder="key.created" />
        <FilterField name="actor" label="By" value={filter.actor} placeholder="member" />
        <FilterField name="target" label="On" value={filter.target} placeholder="an id" />
        {filter.from !== undefined && <input type="hidden" name="from" value={iso(filter.from)} />}
        {filter.to !== undefined && <input type="hidden" name="to" value={iso(filter.to)} />}
        <Submit>Filter</Submit>
        {Object.values(filter).some(Boolean) && <a href="/settings/audit">Clear the filter</a>}
      </form>
      {(filter.from !== undefined || filter.to !== undefined) && (
        <p class="quiet">
          {filter.from !== undefined && (
            <>
              From <Moment timeMs={filter.from} />{" "}
            </>
          )}
          {filter.to !== undefined && (
            <>
              to <Moment timeMs={filter.to} />
            </>
          )}
        </p>
      )}
      <section class="panel" aria-label="Entries">
        {shown.length === 0 ? (
          <Empty>{next === null ? "Nothing matches." : "None of the latest 2,000 entries match. Older entries may match."}</Empty>
        ) : (
          <table class="cards one-line">
            <Columns
              of={[
                { name: "Action", width: 212 },
                "On",
                { name: "Changed", width: "14%" },
                { name: "By", width: "16%" },
                { name: "From", width: 148, class: "w-from" },
                { name: "When", width: 260 },
              ]}
            />
            <tbody>
              {shown.map((entry) => (
                <tr>
                  <th scope="row" title={entry.action}>
                    <code>{entry.action}</code>
                  </th>
                  <td class="name" title={entry.targetName ?? entry.targetId}>
                    <Target entry={entry} />
                  </td>
                  <td title={entry.changes.join(", ")} data-label={entry.changes.length > 0 ? "Changed" : undefined}>
                    {entry.changes.join(", ")}
                  </td>
                  <td class="name" data-label="By" title={`${actorNameOf(entry)} ${entry.actorId === null ? "" : entry.actorType}`.trim()}>
                    <bdi>{actorNameOf(entry)}</bdi> {entry.actorId && <span class="quiet">({entry.actorType})</span>}
                  </td>
                  <td data-label="From" title={originOf(entry)}>
                    {originOf(entry) || <span class="quiet">unknown</span>}
                  </td>
                  <td>
                    <Moment timeMs={timeOfId(entry.id)} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
      {next !== null && (
        <p class="pages">
          <a href={`/settings/audit?${query({ after: next })}`}>Older</a>
        </p>
      )}
    </>,
  );
});

const originOf = ({ ip, country }: ReadAuditEntry): string => [ip, country].filter(Boolean).join(", ");

/** The pages of targets, by the prefix of their ids. */
const pagesOfTargets: Record<string, string> = { key: "/keys", whk: "/webhooks" };

/** Renders what an entry is about, with a link to its page if it has one. */
const Target = ({ entry: { action, targetId, targetName } }: { entry: ReadAuditEntry }) => {
  const page =
    action === "member.removed" ? `/settings/members/${targetId}/remove` : `${pagesOfTargets[targetId.slice(0, 3)] ?? ""}/${targetId}`;
  const name = <bdi>{targetName ?? targetId}</bdi>;
  return pagesOfTargets[targetId.slice(0, 3)] || action === "member.removed" ? <a href={page}>{name}</a> : name;
};

auditPages.get("/settings/audit.csv", needs("audit"), async (c) => {
  const { rows: entries, areAll } = await readRows((position) => listAudit(contextOf(c), { filter: filterOf(c), ...position }));
  const csv = await csvOf<ReadAuditEntry>(
    {
      id: (entry) => entry.id,
      at: (entry) => iso(timeOfId(entry.id)),
      action: (entry) => entry.action,
      target_type: (entry) => entry.targetType,
      target_id: (entry) => entry.targetId,
      target_name: (entry) => entry.targetName,
      actor_type: (entry) => entry.actorType,
      actor_id: (entry) => entry.actorId,
      actor_name: (entry) => entry.actorName,
      ip: (entry) => entry.ip,
      country: (entry) => entry.country,
      changes: (entry) => entry.changes.join(" "),
    },
    entries,
  );
  return c.body(csv, 200, csvHeaders("audit", areAll));
});
