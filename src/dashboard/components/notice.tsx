import type { Child } from "hono/jsx";
import type { Refused } from "../forms.ts";
import { fieldId } from "./fields.tsx";

/** What an action did, in a sentence, and the call of the API that does the same. */
export const Done = ({ children, call }: { children: Child; call?: string | undefined }) => (
  <div class="note done" role="status">
    <p>
      <span aria-hidden="true">✓</span> {children}
    </p>
    {call && (
      <p class="quiet">
        The same by API: <code>{call}</code>
      </p>
    )}
  </div>
);

/** Why nothing was done. */
export const Alert = ({ refused }: { refused: Refused | undefined }) =>
  refused ? (
    <div class="note alert" role="alert">
      <p>
        <span aria-hidden="true">✕</span> {refused.summary}
      </p>
      {[...refused.faults.entries()].map(([name, message]) => (
        <p>
          <a href={`#${fieldId(name)}`}>
            <code>{name}</code>
          </a>
          : {message}
        </p>
      ))}
    </div>
  ) : null;

/** What holds of the page as it is, without anything having been done. */
export const Note = ({ children }: { children: Child }) => <div class="note">{children}</div>;

/** What stands where there is nothing yet: one sentence, and the next step. */
export const Empty = ({ children }: { children: Child }) => <div class="empty">{children}</div>;
