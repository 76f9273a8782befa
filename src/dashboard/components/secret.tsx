import type { Child } from "hono/jsx";
import type { PageContext } from "../context.ts";
import { ButtonLink } from "./fields.tsx";
import { type Shown, showPage } from "./layout.tsx";

/**
 * Renders a secret that is shown only once. The secret is masked until the reader selects "Show the secret". The reader can copy or
 * download the secret. If JavaScript is off, only the "Copy" button is missing.
 */
export const OneTimeSecret = ({
  label,
  secret,
  variable,
  file,
  children,
}: {
  label: string;
  secret: string;
  /** The name of the environment variable for the secret. */
  variable: string;
  file: string;
  children?: Child;
}) => (
  <section class="panel secret-once" aria-labelledby="secret-heading">
    <h2 id="secret-heading">Shown only once</h2>
    <p>Store this secret with your other secrets, because it cannot be shown again.</p>
    <label class="reveal">
      <input type="checkbox" /> Show the secret
    </label>
    <section class="secret-text" aria-label={label} data-secret>
      {secret}
    </section>
    <p class="buttons">
      <button class="main" type="button" data-copy="[data-secret]" hidden>
        Copy
      </button>
      <a class="button" download={file} href={`data:text/plain;charset=utf-8,${encodeURIComponent(`${variable}=${secret}\n`)}`}>
        Download .env
      </a>
      <span role="status" data-copied />
    </p>
    <h3>Or set it in a shell</h3>
    <div class="sample">
      <section class="code" tabindex={0} aria-label="The command for a shell">
        <pre>
          <code id="export">
            export {variable}=<span class="masked">{secret}</span>
          </code>
        </pre>
      </section>
      <CopyButton of="#export" what="the command for a shell" />
    </div>
    {children}
  </section>
);

/**
 * Responds to a form that was already sent. The first response contained the secret, which cannot be shown again. `what`: what the form created. `path`: the
 * page to continue with.
 */
export const showShownBefore = (
  c: PageContext,
  { what, path, ...page }: Pick<Shown, "title" | "section"> & { what: string; path: string },
) =>
  showPage(
    c,
    { ...page, status: 409 },
    <section class="panel">
      <p role="alert">
        This form was already sent. {what} was created at that time, and the secret was shown once. If you did not save the secret, rotate
        it to get a new secret.
      </p>
      <p>
        <ButtonLink kind="main" href={path}>
          Continue
        </ButtonLink>
      </p>
    </section>,
  );

/** Renders code in a scrollable box. With `id`, the box has a button that copies it. The button needs JavaScript. */
export const Code = ({ children, label, id }: { children: Child; label: string; id?: string }) => (
  <div class={id && "sample"}>
    <section class="code" tabindex={0} aria-label={label}>
      <pre>
        <code id={id}>{children}</code>
      </pre>
    </section>
    {id && <CopyButton of={`#${id}`} what={label} />}
  </div>
);

/**
 * Renders a button that copies the text of an element. `of` is the CSS selector of the element. With `what`, the button is an icon. The button
 * stays hidden if JavaScript is off.
 */
export const CopyButton = ({ of, what }: { of: string; what?: string }) => (
  <p class="buttons">
    {what === undefined ? (
      <button type="button" data-copy={of} hidden>
        Copy
      </button>
    ) : (
      <button type="button" class="icon" data-copy={of} title="To the clipboard" aria-label={`To the clipboard: ${what}`} hidden>
        <svg width="14" height="14" viewBox="0 0 14 14" fill="none" stroke="currentColor" aria-hidden="true">
          <rect x="4.5" y="4.5" width="8" height="8" rx="1.5" />
          <path d="M2.5 9.5h-1v-8h8v1" />
        </svg>
      </button>
    )}
    <span role="status" data-copied />
  </p>
);
