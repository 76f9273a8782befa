import { maskSecrets } from "../credentials/mask-keys.ts";
import type { FailureContent, FieldError } from "../lib/errors/failure.ts";
import type { Entry } from "./entry.ts";

const maxDetail = 512;
const maxText = 256;
/** The maximum size of the errors as JSON, in characters. */
const maxErrors = 1500;

/**
 * Returns the part of an error response that the log keeps, without secrets. Errors are left out from the first one that does not fit into 2 KB. A client
 * chose the names of members and parameters, so they can contain any text.
 */
export function keptProblem({ message, fieldErrors = [] }: FailureContent): NonNullable<Entry["problem"]> {
  const errors: FieldError[] = [];
  let left = maxErrors;
  for (const error of fieldErrors) {
    const masked = maskedError(error);
    left -= JSON.stringify(masked).length;
    if (left < 0) break;
    errors.push(masked);
  }
  return { detail: maskSecrets(message, maxDetail), errors };
}

const maskedError = ({ detail, pointer, parameter, header, ...rest }: FieldError): FieldError => ({
  ...rest,
  detail: maskSecrets(detail, maxText),
  ...(pointer !== undefined && { pointer: maskSecrets(pointer, maxText) }),
  ...(parameter !== undefined && { parameter: maskSecrets(parameter, maxText) }),
  ...(header !== undefined && { header: maskSecrets(header, maxText) }),
});
