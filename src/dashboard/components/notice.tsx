import type { Child } from "hono/jsx";
import type { FormError } from "../forms.ts";
import { fieldId } from "./fields.tsx";

/** Renders a sentence about what an action did, and the API call that does the same. */
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

/** Renders the reasons why nothing was changed. */
export const Alert = ({ formError }: { formError: FormError | undefined }) =>
  formError ? (
    <div class="note alert" role="alert">
      <p>
        <span aria-hidden="true">✕</span> {formError.summary}
      </p>
      {[...formError.fieldErrors.entries()].map(([name, message]) => (
        <p>
          <a href={`#${fieldId(name)}`}>
            <code>{name}</code>
          </a>
          : {message}
        </p>
      ))}
    </div>
  ) : null;

/** Renders a note about the current state of the page. `Done` and `Alert` are for the results of actions. */
export const Note = ({ children }: { children: Child }) => <div class="note">{children}</div>;

/** Renders the content of an empty list: one sentence and the next step. */
export const Empty = ({ children }: { children: Child }) => <div class="empty">{children}</div>;
