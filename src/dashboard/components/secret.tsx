import type { Child } from "hono/jsx";

/**
 * A secret, shown this once: covered until it is asked for, to be copied or taken as a file. All of it works without script but "Copy",
 * which then is not there.
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
  /** The name that it has in an environment. */
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

/** Where the form was sent before: its secret has been shown, or its page was left. */
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

/** A piece of code in its own box, which scrolls by itself. `id`: where it is to be copied, which takes script. */
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

/** Copies the text of an element; there only with script. */
export const CopyButton = ({ of }: { of: string }) => (
  <p class="buttons">
    <button type="button" data-copy={of} hidden>
      Copy
    </button>
    <span role="status" data-copied />
  </p>
);
