import { mayTouch } from "../dashboard/access/permissions.tsx";
import { Options } from "../dashboard/components/fields.tsx";
import type { PageContext, Visitor } from "../dashboard/context.ts";
import { namesOf } from "../dashboard/key-choices.ts";
import { contextOf } from "../dashboard/operation-contexts.ts";
import { listKeys } from "../keys/read-keys.ts";

const maxKeys = 100;

/**
 * Returns the field with which a reader sends requests as one of their keys, without having its secret at hand. Returns null if there is no such key, or if the
 * keys cannot be read: the page has a field for a secret, too.
 */
export async function readSendAs(c: PageContext, help?: string) {
  const visitor = c.get("visitor") as Visitor | undefined;
  if (!visitor) return null;
  const keys = await listKeys(contextOf(c), { statuses: ["active"], limit: maxKeys }).catch(() => []);
  const usable = keys.filter(({ scopes }) => mayTouch(c, scopes)).toSorted((a, b) => (b.lastUsedAt ?? 0) - (a.lastUsedAt ?? 0));
  if (usable.length === 0) return null;
  return (
    <div class="field" data-needs-script hidden>
      <label for="send-as">Send as</label>
      <select id="send-as" data-send-as>
        <Options of={[...namesOf(usable)]} />
      </select>
      {help && <p class="help">{help}</p>}
      <p class="help" role="alert" data-confirm hidden>
        Your sign-in was too long ago.{" "}
        <button type="submit" formmethod="post" formtarget="_blank" formnovalidate>
          Confirm it in another tab
        </button>
        , then send again.
      </p>
    </div>
  );
}
