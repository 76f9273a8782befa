import { Hono } from "hono";
import { changeKey } from "../../../keys/change-key.ts";
import { widens } from "../../../keys/grants.ts";
import type { Key } from "../../../keys/key.ts";
import { readKey } from "../../../keys/read-keys.ts";
import { KeyPatch, keyPatchOf } from "../../../keys/schemas.ts";
import { isServed } from "../../../keys/scopes.ts";
import { teamName } from "../../../lib/settings.ts";
import { iso } from "../../../lib/time/clock.ts";
import { needs } from "../../access/needs.ts";
import { grantableScopes, requireGrantableScopes } from "../../access/permissions.tsx";
import { askForStepUp } from "../../access/step-up.tsx";
import { Fact } from "../../components/fact.tsx";
import { Submit, TextField } from "../../components/fields.tsx";
import { KeyFields, keyInputOf } from "../../components/key-fields.tsx";
import { KeyText } from "../../components/key-list.tsx";
import { Moment } from "../../components/time.tsx";
import { idOf, type PageContext, type PageEnv } from "../../context.ts";
import { asShown, attempt, Form, parseInput, readForm, type Sent } from "../../forms.ts";
import { contextOf, snapshotContext } from "../../operation-contexts.ts";
import { isChangeable, showTab } from "./frame.tsx";

/** The tab with the settings of a key, and the form that changes them. */
export const keySettingsPages = new Hono<PageEnv>();

/** Responds with the settings of a key. `formError` holds the reasons why a submitted form was rejected. */
async function showSettings(c: PageContext, { form = new Form(), formError }: Sent = {}) {
  const context = await snapshotContext(c);
  const key = await readKey(context, idOf(c));
  // The page of a denied request offers the scope that was missing.
  const added = grantableScopes(c).filter((scope) => scope === c.req.query("add") && !key.scopes.includes(scope));
  return showTab(
    c,
    key,
    { tab: "Settings", formError },
    <>
      <section class="panel" aria-labelledby="facts">
        <h2 id="facts">The key</h2>
        <dl class="facts">
          <Fact name="Key">
            <KeyText keyRow={key} />
          </Fact>
          <Fact name="Id">
            <code>{key.id}</code>
          </Fact>
          <Fact name="Scopes" class="scopes">
            {key.scopes.map((scope) => (
              <code>{scope}</code>
            ))}
          </Fact>
          <Fact name="Allowed IPs">{key.allowedIps.length === 0 ? "any" : key.allowedIps.map((range) => <code>{range} </code>)}</Fact>
          <Fact name="Created">
            <Moment timeMs={key.createdAt} /> by <bdi>{key.createdByName ?? creatorInWords(key)}</bdi>
          </Fact>
        </dl>
      </section>
      {isChangeable(c, key) && (
        <section class="panel" aria-labelledby="change">
          <h2 id="change">Change</h2>
          {added.length > 0 && (
            <p role="status">
              The scope <code>{added.join(" ")}</code> is ticked. Save to give it to the key.
            </p>
          )}
          <form class="form wide" method="post" action={`/keys/${key.id}`}>
            <input type="hidden" name="revision" value={key.revision} />
            <input type="hidden" name="scopes_shown" value="yes" />
            <KeyFields
              form={form}
              formError={formError}
              options={grantableScopes(c)}
              ticked={form.ticked("scopes") ?? [...key.scopes, ...added]}
              account={c.get("visitor").account}
              values={{
                hourlyLimit: String(key.hourlyLimit),
                otherLimits: key.otherLimits,
                expiresAt: key.expiresAt === null ? "" : iso(key.expiresAt).slice(0, 16),
                allowedIps: key.allowedIps.join("\n"),
              }}
            >
              <TextField form={form} formError={formError} name="name" label="Name" value={key.name} required maxlength={100} />
            </KeyFields>
            <Submit>Save</Submit>
          </form>
        </section>
      )}
    </>,
  );
}

keySettingsPages.get("/keys/:id/settings", needs("session"), (c) => showSettings(c));

const creatorInWords = ({ createdByType: type }: Key): string =>
  type === null || type === "operator" || type === "token" ? teamName : `the ${type}`;

/** Returns the changes that a form makes to a key. If the form lacks a field, the field's value stays unchanged. */
function changesIn(c: PageContext, form: Form, before: Key) {
  const { name, scopes = [], hourly_limit = c.get("visitor").account.limitCeiling, limits, allowed_ips, expires_at } = keyInputOf(form);
  // The expiry field shows no seconds. If the field still shows the same minute, keep the stored expiry time.
  const isSameEnd = before.expiresAt !== null && iso(before.expiresAt).slice(0, 16) === form.text("expires_at").slice(0, 16);
  const namesNone = form.has("hourly_limit") && form.text("hourly_limit") === "" && limits?.length === 0;
  return {
    ...(form.has("name") && { name }),
    // Browsers send only ticked checkboxes. The field `scopes_shown` shows that the form has the checkboxes, even if none is ticked.
    ...((form.has("scopes") || form.has("scopes_shown")) && { scopes }),
    ...(namesNone ? { limits_from: "plan" } : { ...(form.has("hourly_limit") && { hourly_limit }), ...(limits && { limits }) }),
    ...(form.has("allowed_ips") && { allowed_ips }),
    ...(form.has("expires_at") && !isSameEnd && { expires_at }),
  };
}

keySettingsPages.post("/keys/:id", needs("keys", "sometimes"), async (c) => {
  const form = await readForm(c);
  const before = await readKey(await snapshotContext(c), idOf(c));
  const parsed = parseInput(KeyPatch, changesIn(c, form, before));
  if ("formError" in parsed) return showSettings(c, { form, formError: parsed.formError });
  const patch = keyPatchOf(parsed.input);
  // The form does not offer scopes of resources that are not served. The key keeps them.
  if (patch.scopes) patch.scopes = [...patch.scopes, ...before.scopes.filter((scope) => !isServed(scope))];
  const { limitCeiling: hourlyLimit, keyLimits: otherLimits } = c.get("visitor").account;
  const after = { ...before, ...patch, ...(patch.limitsFrom === "plan" && { hourlyLimit, otherLimits }) };
  const stepUp = widens(before, after) ? await askForStepUp(c) : null;
  if (stepUp) return stepUp;
  const changed = await attempt(async () => {
    requireGrantableScopes(c, [...before.scopes, ...(patch.scopes ?? [])]);
    // Change only the revision in `before`, because the step-up check used this revision. If the key was narrowed since, the same patch
    // could widen the key without a step-up.
    return changeKey(contextOf(c), idOf(c), patch, (revision) => revision === before.revision && asShown(form)(revision));
  });
  return "formError" in changed
    ? showSettings(c, { form, formError: changed.formError })
    : c.redirect(`/keys/${idOf(c)}/settings?done=changed`, 303);
});
