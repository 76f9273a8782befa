import { eventCatalogue } from "../../outbox/catalogue.ts";
import { counted } from "../format.ts";
import type { FormError } from "../forms.ts";
import { fieldId, Help, isFirstInvalid } from "./fields.tsx";

/** The event types by their resource, which is the first part of a type's name. */
const groups = [...Map.groupBy(eventCatalogue.kinds, ({ type }) => type.split(".")[0] ?? type)];

/** Returns the name of a group, for example "Rate limit" for `rate_limit`. */
const nameOf = (group: string): string => group.charAt(0).toUpperCase() + group.slice(1).replaceAll("_", " ");

/** Renders the checkboxes of the event types: one for all events, and one for each type, grouped by resource. */
export const EventChoices = ({ ticked, formError }: { ticked: readonly string[]; formError?: FormError | undefined }) => {
  const field = { name: "event_types", label: "Events", formError };
  return (
    <fieldset class="field events" id={fieldId(field.name)} aria-describedby={`${fieldId(field.name)}-help`}>
      <legend>{field.label}</legend>
      <Help
        {...field}
        help={
          <>
            The documentation shows <a href="/docs/guides/webhooks#what-is-sent">each event type with an example</a>.
          </>
        }
      />
      <label class="check">
        <input
          type="checkbox"
          name={field.name}
          value="*"
          checked={ticked.includes("*")}
          aria-label="*"
          aria-describedby="all-events"
          autofocus={isFirstInvalid(formError, field.name)}
        />
        <span id="all-events">All events, including types that are added later</span>
      </label>
      <div class="event-groups">
        {groups.map(([group, kinds]) => (
          <fieldset>
            <legend>
              {nameOf(group)} <span class="quiet">{counted(kinds.length, "type")}</span>
            </legend>
            {kinds.map(({ type, description }) => (
              <label class="check">
                <input type="checkbox" name={field.name} value={type} checked={ticked.includes(type)} aria-label={type} />
                <span>
                  <a href={`/docs/events/${type}`}>
                    <code>{type}</code>
                  </a>
                  <span class="help">{description}</span>
                </span>
              </label>
            ))}
          </fieldset>
        ))}
      </div>
    </fieldset>
  );
};
