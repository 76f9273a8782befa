import type { Child } from "hono/jsx";
import { descriptionOf } from "../../keys/scopes.ts";
import type { FormError } from "../forms.ts";
import { fieldId, Help, isFirstInvalid } from "./fields.tsx";

interface ScopeChoicesProps {
  formError?: FormError | undefined;
  /** The scopes that the visitor may select. */
  options: readonly string[];
  ticked: readonly string[];
  /** What stands between the name of the field and the checkboxes. */
  children?: Child;
}

/** Renders the checkboxes of scopes: one row for each resource, with a checkbox for each of its actions. */
export const ScopeChoices = ({ formError, options, ticked, children }: ScopeChoicesProps) => {
  const field = { name: "scopes", label: "Scopes", help: "Select only the scopes that the client of the key needs.", formError };
  const byResource = Map.groupBy(options, (scope) => scope.split(":")[0] ?? scope);
  return (
    <fieldset class="field" id={fieldId(field.name)} aria-describedby={`${fieldId(field.name)}-help`}>
      <legend>{field.label}</legend>
      {children}
      <div class="scope-rows">
        {[...byResource].map(([resource, scopes]) => (
          <div class="scope-row">
            <code>{resource}</code>
            <div>
              {scopes.map((scope) => (
                <label class="check" title={descriptionOf(scope)}>
                  <input
                    type="checkbox"
                    name={field.name}
                    value={scope}
                    checked={ticked.includes(scope)}
                    aria-label={scope}
                    autofocus={scope === options[0] && isFirstInvalid(formError, field.name)}
                  />
                  {scope.slice(resource.length + 1)}
                </label>
              ))}
            </div>
          </div>
        ))}
      </div>
      <Help {...field} />
    </fieldset>
  );
};
