import { credentialsIn } from "../credentials/credential-in.ts";
import { Failure } from "../errors/failure.ts";

/**
 * Returns the credential in the values of several headers, or an empty string if there is none. Throws `invalid_header` if there are two different ones.
 * `headers`: the names of the headers, for the error.
 */
export function credentialIn(values: readonly (string | undefined)[], headers: string): string {
  const [credential = "", ...others] = credentialsIn(values);
  if (others.length > 0)
    throw new Failure("invalid_header", "The request has two different credentials.", {
      fieldErrors: [{ header: headers, detail: "Must hold only one credential.", code: "invalid_value" }],
    });
  return credential;
}
