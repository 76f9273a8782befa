import { receiveBody } from "./body.ts";
import { BodyBudget } from "./body-budget.ts";
import type { AppContext } from "./context.ts";
import type { Owner } from "./share-owner.ts";

/** The maximum size of a form, in bytes. The largest forms are a passkey response and a list of 100 addresses. */
const maxFormBytes = 16 * 1024;
const bytesOfForms = 4 * 1024 * 1024;
/** Memory for the forms of each kind of owners. Strangers therefore take none from accounts. */
const bodies = { account: new BodyBudget(bytesOfForms), stranger: new BodyBudget(bytesOfForms), team: new BodyBudget(bytesOfForms) };

/** Receives a form of at most 16 KiB. Reading a larger one throws `body_too_large`. `ownerOf`: returns whose share of the memory the form takes. */
export const receiveForm = (ownerOf: (c: AppContext) => Owner | Promise<Owner>) =>
  receiveBody({
    maxBytes: maxFormBytes,
    claimFor: async (c) => {
      const { kind, name } = await ownerOf(c);
      return bodies[kind].open(name, Date.now());
    },
  });
