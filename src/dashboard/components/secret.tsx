import type { Child } from "hono/jsx";

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
    </p>
    <p role="status" data-copied />
    {children}
  </section>
);

/** Renders the notice for a form that was already sent. The first response contained the secret, which cannot be shown again. */
export const ShownBefore = ({ path, what }: { path: string; what: string }) => (
  <section class="panel">
    <p role="alert">
      This form was already sent. {what} was created at that time, and the secret was shown once. If you did not save the secret, rotate it
      to get a new secret.
    </p>
    <p>
      <a class="button main" href={path}>
        Continue
      </a>
    </p>
  </section>
);

/** Renders code in a scrollable box. With `id`, the box has a "Copy" button. The button needs JavaScript. */
export const Code = ({ children, label, id }: { children: string; label: string; id?: string }) => (
  <>
    <section class="code" tabindex={0} aria-label={label}>
      <pre>
        <code id={id}>{children}</code>
      </pre>
    </section>
    {id && <CopyButton of={`#${id}`} />}
  </>
);

/**
 * Renders a button that copies the text of an element. The button stays hidden if JavaScript is off. `of` is the CSS selector of the
 * element.
 */
export const CopyButton = ({ of }: { of: string }) => (
  <p class="buttons">
    <button type="button" data-copy={of} hidden>
      Copy
    </button>
    <span role="status" data-copied />
  </p>
);
