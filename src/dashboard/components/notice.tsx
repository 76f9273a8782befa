import type { Child } from "hono/jsx";
import type { FormError } from "../forms.ts";
import { fieldId } from "./fields.tsx";

/** Renders the result of an action and the API call that has the same effect. */
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

/** Returns the name of a field as its label shows it, for example "Event types" for `event_types`. */
function labelOf(name: string): string {
  const words = name.replaceAll(/[_/]/g, " ").trim();
  return words === "url" ? "URL" : words.charAt(0).toUpperCase() + words.slice(1);
}

/** Renders the errors that prevented a change. */
export const Alert = ({ formError }: { formError: FormError | undefined }) =>
  formError ? (
    <div class="note alert" role="alert">
      <p>
        <span aria-hidden="true">✕</span> {formError.summary}
      </p>
      {[...formError.fieldErrors.entries()].map(([name, message]) => (
        <p>
          <a href={`#${fieldId(name)}`}>{labelOf(name)}</a>: {message}
        </p>
      ))}
    </div>
  ) : null;

/** Renders a note about the current state of the page. Use `Done` or `Alert` for the result of an action. */
export const Note = ({ isBad = false, children }: { isBad?: boolean; children: Child }) => (
  <div class={isBad ? "note alert" : "note"}>{children}</div>
);

/** Renders the text that an empty list shows: one sentence and the next step. */
export const Empty = ({ children }: { children: Child }) => <div class="empty">{children}</div>;
