import { bodyLimit } from "hono/body-limit";
import { Failure } from "../errors/failure.ts";

/** Enough for the largest form: a passkey response, or a hundred addresses. */
const maxFormBytes = 16 * 1024;

/** Refuses forms, and bodies of the operator's calls, that are larger than 16 KiB. */
export const formLimit = bodyLimit({
  maxSize: maxFormBytes,
  onError: () => {
    throw new Failure("body_too_large", `A form may have ${maxFormBytes / 1024} KiB at most.`);
  },
});
