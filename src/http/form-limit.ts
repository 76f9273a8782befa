import { bodyLimit } from "hono/body-limit";
import { Failure } from "../errors/failure.ts";

/** The maximum size of a form, in bytes. The largest forms are a passkey response and a list of 100 addresses. */
const maxFormBytes = 16 * 1024;

/** Throws `body_too_large` if a form is larger than 16 KiB. The same limit applies to the body of an operator request. */
export const formLimit = bodyLimit({
  maxSize: maxFormBytes,
  onError: () => {
    throw new Failure("body_too_large", `A form may have at most ${maxFormBytes / 1024} KiB.`);
  },
});
