import { z } from "zod";
import { like } from "../../lib/inputs/like.ts";
import { email, visibleText } from "../../lib/inputs/values.ts";
import { iso } from "../../lib/time/clock.ts";
import { timeOf } from "../../lib/time/iso-text.ts";
import { roles, type User, userStatuses } from "./user.ts";

export const UserRole = z.enum(roles).meta({
  description: "The role of the user, for your own use: `admin`, `member` or `viewer`. The role grants no access to this service.",
  examples: ["member"],
});

export const UserStatus = z.enum(userStatuses).meta({
  description: "The status of the user, for your own use: `active` or `suspended`. The status has no effect in this service.",
  examples: ["active"],
});

/** The fields of a user in API responses and in events. */
export const UserData = z.strictObject({
  id: z.string().meta({ description: "The id of the user.", examples: ["usr_019a1b2c3d4e7f8091a2b3c4d5e6f708"] }),
  name: z.string().meta({ description: "The name of the user.", examples: ["Ada Lovelace"] }),
  email: z.string().meta({
    description: "The email address of the user, which is unique in the account regardless of case.",
    examples: ["ada@example.com"],
  }),
  role: UserRole,
  status: UserStatus,
  created_at: timeOf("The time when the user was created."),
  updated_at: timeOf("The time when the user was last changed."),
});

export const userData = (user: User): z.infer<typeof UserData> => ({
  id: user.id,
  name: user.name,
  email: user.email,
  role: user.role,
  status: user.status,
  created_at: iso(user.createdAt),
  updated_at: iso(user.updatedAt),
});

// The fields of a user that a client may set.

const { shape } = UserData;
const name = like(visibleText(1, 200), shape.name);
const emailAddress = like(email, shape.email);

export const NewUser = z.strictObject({
  name,
  email: emailAddress,
  role: UserRole.default("member"),
  status: UserStatus.default("active"),
});

export const UserPatch = z.strictObject({
  name: name.optional(),
  email: emailAddress.optional(),
  role: UserRole.optional(),
  status: UserStatus.optional(),
});
