import { credentialsIn, needsForms } from "../../credentials/credential-in.ts";
import type { Db } from "../../db/client.ts";
import { knownForms } from "../../keys/imported/find-imported.ts";
import { Failure } from "../../lib/errors/failure.ts";

/**
 * Returns the credential in the values of several headers, or an empty string if there is none. Throws `invalid_header` if there are two different ones.
 * `headers`: the names of the headers, for the error. Reads the registered forms if only they can tell the credential from other text. If D1 does not
 * respond, only keys of this service are recognized.
 */
export async function credentialIn(db: Db, values: readonly (string | undefined)[], headers: string): Promise<string> {
  const forms = values.some(needsForms) ? await knownForms(db, Date.now()).catch(() => []) : [];
  const [credential = "", ...others] = credentialsIn(values, forms);
  if (others.length > 0)
    throw new Failure("invalid_header", "The request has two different credentials.", {
      fieldErrors: [{ header: headers, detail: "Must hold only one credential.", code: "invalid_value" }],
    });
  return credential;
}
