import { receiveBody } from "./body.ts";
import { BodyBudget } from "./body-budget.ts";
import type { AppContext } from "./context.ts";

/** The maximum size of a form, in bytes. The largest forms are a passkey response and a list of 100 addresses. */
const maxFormBytes = 16 * 1024;
/** Memory for the forms of everybody. */
const bodies = new BodyBudget(4 * 1024 * 1024);

/** Receives a form of at most 16 KiB. Reading a larger one throws `body_too_large`. `ownerOf`: returns whose share of the memory the form takes. */
export const receiveForm = (ownerOf: (c: AppContext) => string) =>
  receiveBody({ maxBytes: maxFormBytes, claimFor: (c) => bodies.open(ownerOf(c), Date.now()) });
