import { type Event, type EventKind, kindsAbout, newChangeEvent, newEvent, ofChange } from "../../events/event.ts";
import { UserData, userData } from "./schemas.ts";
import type { User } from "./user.ts";

const kind = kindsAbout(UserData, {
  scope: "users:read",
  schema: "User",
  example: {
    id: "usr_019a1b2c3d4e7f8091a2b3c4d5e6f708",
    name: "Ada Lovelace",
    email: "ada@example.com",
    role: "member",
    status: "active",
    created_at: "2026-01-30T08:00:00.000Z",
    updated_at: "2026-01-31T09:30:00.000Z",
  },
});

const created = kind("user.created", "A user was made.");
const updated = ofChange(kind("user.updated", "A user was changed."), { role: "viewer", updated_at: "2026-01-30T08:00:00.000Z" });
const deleted = kind("user.deleted", "A user was deleted. It is shown as it was last.");

export const userEventKinds = [created, updated, deleted];

const maker =
  (kind: EventKind<typeof UserData>) =>
  (user: User, now: number): Event =>
    newEvent(kind, { accountId: user.accountId, now }, userData(user));

export const userCreated = maker(created);
export const userDeleted = maker(deleted);

export const userUpdated = (before: User, after: User, now: number): Event =>
  newChangeEvent(updated, { accountId: after.accountId, now }, { before: userData(before), after: userData(after) });
