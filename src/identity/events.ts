import { z } from "zod";
import { manifest } from "../db/areas/identity/manifest.ts";
import type { Member } from "../db/areas/identity/tables.ts";
import { iso } from "../lib/time/clock.ts";
import { timeOf } from "../lib/time/iso-text.ts";
import { type Event, type EventKind, kindsOf, newEvent } from "../outbox/event.ts";
import { roles } from "./roles.ts";

const MemberData = z.strictObject({
  id: z.string().meta({ description: "The id of the member. In the event `member.invited`, this is the id of the invitation." }),
  name: z.string().meta({ description: "The name of the member, which is empty until the member joins." }),
  email: z.string().meta({ description: "The email address of the member." }),
  role: z.enum(roles).meta({
    description:
      "The role of the member: `owner`, `admin`, `developer` or `viewer`. A viewer may only read. A developer also manages keys and webhooks. An admin also manages members and reads the audit log. An owner may do everything.",
  }),
  created_at: timeOf("The time when the member was invited or joined."),
});

export const eventKinds = kindsOf(manifest.events[0], MemberData);

type Person = Pick<Member, "accountId" | "id" | "name" | "email" | "role" | "createdAt">;

const maker =
  (of: EventKind<typeof MemberData>) =>
  ({ accountId, id, name, email, role, createdAt }: Person, now: number): Event =>
    newEvent(of, { accountId, now }, { id, name, email, role, created_at: iso(createdAt) });

export const memberInvited = maker(eventKinds["member.invited"]);
export const memberJoined = maker(eventKinds["member.joined"]);
export const memberRemoved = maker(eventKinds["member.removed"]);
