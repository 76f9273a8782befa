import type { Child, PropsWithChildren } from "hono/jsx";
import type { Form, FormError } from "../forms.ts";

interface Field {
  name: string;
  label: string;
  help?: Child;
  formError?: FormError | undefined;
}

export const fieldId = (name: string) => `field-${name}`;

/** Returns whether a field is the first invalid field of a form. The first invalid field gets the focus. */
export const isFirstInvalid = (formError: FormError | undefined, name: string): boolean =>
  formError?.fieldErrors.keys().next().value === name;

const described = ({ name, help, formError }: Field) => {
  const ids = [help && `${fieldId(name)}-help`, formError?.fieldErrors.has(name) && `${fieldId(name)}-error`].filter(Boolean);
  return ids.length > 0 ? ids.join(" ") : undefined;
};

/** Returns the attributes that every input of a form has. */
export const control = (field: Field) => ({
  id: fieldId(field.name),
  name: field.name,
  "aria-describedby": described(field),
  "aria-invalid": field.formError?.fieldErrors.has(field.name) ? ("true" as const) : undefined,
  autofocus: isFirstInvalid(field.formError, field.name),
});

/** Renders the help text and the error of a field. */
export const Help = ({ name, help, formError }: Field) => (
  <>
    {help && (
      <p class="help" id={`${fieldId(name)}-help`}>
        {help}
      </p>
    )}
    {formError?.fieldErrors.has(name) && (
      <p class="field-error" id={`${fieldId(name)}-error`}>
        {formError.fieldErrors.get(name)}
      </p>
    )}
  </>
);

/** Renders a field with its label, help text and error. */
export const Labelled = ({ children, ...field }: PropsWithChildren<Field>) => (
  <div class="field">
    <label for={fieldId(field.name)}>{field.label}</label>
    {children}
    <Help {...field} />
  </div>
);

/**
 * Returns the `maxlength` attribute for a limit in characters. Browsers count UTF-16 units, and a character has at most two units. The
 * extra unit lets input that is too long reach the server. The server rejects such input, but a browser would truncate it.
 */
const maxUnits = (characters: number | undefined) => (characters === undefined ? undefined : 2 * characters + 1);

interface TextField extends Field {
  form: Form;
  type?: "text" | "url" | "number" | "datetime-local" | "email";
  value?: string | undefined;
  required?: boolean;
  placeholder?: string;
  min?: number;
  max?: number;
  maxlength?: number;
  /** Whether the field gets the focus when the page opens. */
  autofocus?: boolean;
  /** The number of lines of a text area. Without `rows`, the field has one line. */
  rows?: number;
}

/** Renders a text field with the submitted text, or with `value` if no text was submitted. */
export const TextField = ({
  form,
  type = "text",
  value,
  required,
  placeholder,
  min,
  max,
  maxlength,
  autofocus,
  rows,
  ...field
}: TextField) => {
  const typed = form.optional(field.name) ?? value;
  return (
    <Labelled {...field}>
      {rows ? (
        <textarea {...control(field)} rows={rows} placeholder={placeholder} maxlength={maxUnits(maxlength)}>
          {typed ?? ""}
        </textarea>
      ) : (
        <input
          {...control(field)}
          {...(autofocus && { autofocus })}
          type={type}
          value={typed}
          required={required}
          placeholder={placeholder}
          min={min}
          max={max}
          maxlength={maxUnits(maxlength)}
          autocomplete="off"
        />
      )}
    </Labelled>
  );
};

interface FilterFieldProps {
  name: string;
  label: string;
  /** Whether the field takes the space that is left. */
  isWide?: boolean;
  [attribute: string]: unknown;
}

/** Renders a field of a filter: a text input with the other attributes, or `children` in its place. */
export const FilterField = ({ name, label, isWide, children, ...input }: PropsWithChildren<FilterFieldProps>) => (
  <div class={isWide ? "field grow" : "field"}>
    <label for={name}>{label}</label>
    {children ?? <input id={name} name={name} {...input} />}
  </div>
);

/** Renders the options of a `select`: each is a value, or a value and its text. */
export const Options = ({
  of,
  chosen,
}: {
  of: readonly (string | readonly [value: string, text: string])[];
  chosen?: string | undefined;
}) => (
  <>
    {of.map((each) => {
      const [value, text] = typeof each === "string" ? [each, each] : each;
      return (
        <option value={value} selected={value === chosen}>
          {text}
        </option>
      );
    })}
  </>
);

type Kind = "plain" | "main" | "danger";

/** Renders a link that looks like a button. */
export const ButtonLink = ({
  kind,
  children,
  ...link
}: PropsWithChildren<{ kind?: Kind; href: string; title?: string; [data: string]: unknown }>) => (
  <a class={kind ? `button ${kind}` : "button"} {...link}>
    {children}
  </a>
);

/** Renders the button that sends a form. */
export const Submit = ({ kind = "main", children, ...button }: PropsWithChildren<{ kind?: Kind; [data: string]: unknown }>) => (
  <button class={kind} type="submit" {...button}>
    {children}
  </button>
);

interface ActionProps {
  action: string;
  kind?: Kind;
  hidden?: Record<string, string>;
  /** The accessible name of the button, if its text does not say enough. */
  label?: string | undefined;
}

/** Renders a form that consists of one button. */
export const Action = ({ action, children, kind = "plain", hidden = {}, label }: PropsWithChildren<ActionProps>) => (
  <form class="action" method="post" action={action}>
    {Object.entries(hidden).map(([name, value]) => (
      <input type="hidden" name={name} value={value} />
    ))}
    <button class={kind} type="submit" aria-label={label}>
      {children}
    </button>
  </form>
);
