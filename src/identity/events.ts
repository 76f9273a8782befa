import { z } from "zod";
import { type Event, type EventKind, kindsOf, newEvent } from "../events/event.ts";
import { iso } from "../time/clock.ts";
import { timeOf } from "../time/iso-text.ts";
import { manifest } from "./manifest.ts";
import { roles } from "./roles.ts";
import type { Member } from "./tables.ts";

const MemberData = z.strictObject({
  id: z.string().meta({ description: "The id of the member, or of the invitation." }),
  name: z.string().meta({ description: "Their name; empty until they join." }),
  email: z.string().meta({ description: "Their email address." }),
  role: z.enum(roles).meta({
    description: "What they may do: `owner` everything, `admin` people and audit too, `developer` keys and webhooks, `viewer` look.",
  }),
  created_at: timeOf("When they were invited or joined."),
});

export const eventKinds = kindsOf(manifest.events[0], MemberData);

type Person = Pick<Member, "accountId" | "id" | "name" | "email" | "role" | "createdAt">;

const maker =
  (of: EventKind<typeof MemberData>) =>
  (person: Person, now: number): Event =>
    newEvent(
      of,
      { accountId: person.accountId, now },
      {
        id: person.id,
        name: person.name,
        email: person.email,
        role: person.role,
        created_at: iso(person.createdAt),
      },
    );

export const memberInvited = maker(eventKinds["member.invited"]);
export const memberJoined = maker(eventKinds["member.joined"]);
export const memberRemoved = maker(eventKinds["member.removed"]);
