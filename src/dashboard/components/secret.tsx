import type { Child } from "hono/jsx";

/**
 * Renders a secret that is shown only once. The secret is masked until the reader reveals it, and can be copied or downloaded. Without script, only
 * the "Copy" button is missing.
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
    <h2 id="secret-heading">Shown this once</h2>
    <p>Store it with your other secrets. It cannot be shown again.</p>
    <label class="reveal">
      <input type="checkbox" /> Show it
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

/** Renders the notice for a form that was sent before. The secret was in the first response and cannot be shown again. */
export const ShownBefore = ({ path, what }: { path: string; what: string }) => (
  <section class="panel">
    <p role="alert">
      This form was sent before. {what} was made then, and its secret was shown that once. If you have not kept it, rotate it for a new one.
    </p>
    <p>
      <a class="button main" href={path}>
        Go on
      </a>
    </p>
  </section>
);

/** Renders code in a scrollable box. `id` adds a "Copy" button, which needs script. */
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

/** Renders a button that copies the text of an element. The button stays hidden without script. `of` is the CSS selector of the element. */
export const CopyButton = ({ of }: { of: string }) => (
  <p class="buttons">
    <button type="button" data-copy={of} hidden>
      Copy
    </button>
    <span role="status" data-copied />
  </p>
);
