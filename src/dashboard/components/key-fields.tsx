import type { Child } from "hono/jsx";
import type { Account } from "../../accounts/account.ts";
import type { Limit } from "../../budget/limits.ts";
import { integer } from "../format.ts";
import type { Form, FormError } from "../forms.ts";
import { TextField } from "./fields.tsx";
import { ScopeChoices } from "./scope-choices.tsx";

/** The periods of the limits beside the hourly limit, and the labels of their fields. */
const otherPeriods = [
  ["second", "Limit per second"],
  ["minute", "Limit per minute"],
  ["day", "Limit per day"],
  ["month", "Limit per month"],
] as const;

/** The fields that are folded until they are used. */
const advanced = [...otherPeriods.map(([per]) => `limit_${per}`), "limits"];

const isAdvancedUsed = (formError: FormError | undefined, values: KeyValues | undefined): boolean =>
  advanced.some((name) => formError?.fieldErrors.has(name)) || (values !== undefined && values.otherLimits.length > 0);

/** Renders buttons that fill in the time of expiry. They need JavaScript. */
const ExpiryChips = () => (
  <p class="chips">
    {[7, 30, 90, 365].map((days) => (
      <button type="button" data-expires-in={days} hidden>
        {days === 365 ? "a year" : `${days} days`}
      </button>
    ))}
  </p>
);

/** The current values of a key, as text for its form. */
interface KeyValues {
  hourlyLimit: string;
  otherLimits: readonly Limit[];
  expiresAt: string;
  allowedIps: string;
}

/** Renders the form fields for a key's scopes, limits, allowed IPs and expiry. */
export const KeyFields = ({
  form,
  formError,
  options,
  ticked,
  account,
  values,
  presets,
  children,
}: {
  form: Form;
  formError?: FormError | undefined;
  /** The scopes that the visitor may select. */
  options: readonly string[];
  ticked: readonly string[];
  account: Pick<Account, "limitCeiling" | "keyLimits">;
  values?: KeyValues;
  /** Links that tick several scopes at once. */
  presets?: Child;
  /** The fields before the scopes. */
  children: Child;
}) => (
  <>
    <div class="key-fields">
      <div>
        {children}
        <ScopeChoices formError={formError} options={options} ticked={ticked}>
          {presets}
        </ScopeChoices>
      </div>
      <div>
        <TextField
          form={form}
          formError={formError}
          name="hourly_limit"
          label="Hourly limit"
          type="number"
          min={1}
          max={account.limitCeiling}
          value={values?.hourlyLimit}
          placeholder={String(account.limitCeiling)}
          help={`Units in a clock hour, 1 to ${integer(account.limitCeiling)}. A request usually uses one. If this field is empty, the limit is ${integer(account.limitCeiling)}.`}
        />
        <div>
          <TextField
            form={form}
            formError={formError}
            name="expires_at"
            label="Expires at (UTC)"
            type="datetime-local"
            value={values?.expiresAt}
            help="If this field is empty, the key never expires."
          />
          <ExpiryChips />
        </div>
        <TextField
          form={form}
          formError={formError}
          name="allowed_ips"
          label="Allowed IPs"
          rows={1}
          value={values?.allowedIps}
          placeholder="203.0.113.0/24"
          help="Addresses and CIDR ranges, one per line. If this field is empty, every address is allowed."
        />
      </div>
    </div>
    <details class="field" open={isAdvancedUsed(formError, values)}>
      <summary>Limits per second, minute, day and month</summary>
      <div class="more-fields">
        {otherPeriods.map(([per, label]) => {
          const highest = account.keyLimits.find((each) => each.per === per)?.limit;
          return (
            <TextField
              form={form}
              formError={formError}
              name={`limit_${per}`}
              label={label}
              type="number"
              min={1}
              {...(highest !== undefined && { max: highest })}
              value={values?.otherLimits.find((each) => each.per === per)?.limit.toString()}
              help={
                highest === undefined
                  ? `If this field is empty, the key has no limit per ${per}.`
                  : `The number of units per ${per}, from 1 to ${integer(highest)}. If this field is empty, the limit is ${integer(highest)}.`
              }
            />
          );
        })}
      </div>
    </details>
  </>
);

/** Returns the limits beside the hourly limit, or undefined if the form has no fields for them. */
const limitsIn = (form: Form) =>
  otherPeriods.some(([per]) => form.has(`limit_${per}`))
    ? otherPeriods.flatMap(([per]) => {
        const limit = form.number(`limit_${per}`);
        return limit === undefined ? [] : [{ per, limit }];
      })
    : undefined;

/** Returns the fields of a key form in the input format of the API. */
export const keyInputOf = (form: Form) => ({
  name: form.text("name"),
  scopes: form.ticked("scopes"),
  hourly_limit: form.number("hourly_limit"),
  limits: limitsIn(form),
  allowed_ips: form.words("allowed_ips"),
  expires_at: form.time("expires_at") ?? null,
});
