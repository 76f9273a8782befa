import { z } from "zod";
import { iso } from "../clock.ts";
import { isoText } from "../iso-text.ts";
import { roles, type User, userStatuses } from "./user.ts";

/** A user as everybody outside sees it: in answers and in events. */
export const UserData = z.strictObject({
  id: z.string().meta({ examples: ["usr_019a1b2c3d4e7f8091a2b3c4d5e6f708"] }),
  name: z.string(),
  email: z.string(),
  role: z.enum(roles),
  status: z.enum(userStatuses),
  created_at: isoText,
  updated_at: isoText,
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
