import { createRoute, z } from "@hono/zod-openapi";
import { email, text } from "../../http/inputs/values.ts";
import { deleteUser } from "../../users/delete-user.ts";
import { listUsers, readUser } from "../../users/read-users.ts";
import { roles, userStatuses } from "../../users/user.ts";
import { UserData, userData } from "../../users/user-data.ts";
import { changeUser, createUser } from "../../users/write-users.ts";
import { reading, writing } from "../acting.ts";
import { etagOf, ifMatch, respondOne } from "../middleware/conditional.ts";
import { runOnce } from "../middleware/idempotency.ts";
import { respondEmpty, respondJson } from "../respond.ts";
import { requireScope } from "../route-parts/access.ts";
import { cut, pageOf, positionAt, respondPage } from "../route-parts/pages.ts";
import { body, mergePatch, omitUndefined, withConditions, withIdempotencyKey, withIfMatch } from "../route-parts/requests.ts";
import { json, noContent, notModified, postJson, problems } from "../route-parts/responses.ts";
import { idParam, pageQuery } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const Role = z.enum(roles);
const Status = z.enum(userStatuses);
const name = text(1, 200);

export const User = z
  .strictObject(UserData.shape)
  .openapi("User", { description: "One of the account's own people. Role and status grant nothing in this service." });

const NewUser = z.strictObject({ name, email, role: Role.default("member"), status: Status.default("active") }).openapi("NewUser");

const UserPatch = z
  .strictObject({ name: name.optional(), email: email.optional(), role: Role.optional(), status: Status.optional() })
  .openapi("UserPatch");

const params = idParam("usr_019a1b2c3d4e7f8091a2b3c4d5e6f708");
const tags = ["Users"];

export const users = createRouter();

const list = createRoute({
  method: "get",
  path: "/users",
  operationId: "listUsers",
  summary: "List users",
  description: "Newest first.",
  tags,
  ...requireScope("users:read"),
  request: {
    query: z.strictObject({
      ...pageQuery,
      role: Role.optional(),
      status: Status.optional(),
      q: text(1, 200).optional().openapi({ description: "Part of a name or email address, in any case." }),
    }),
  },
  responses: { 200: json(pageOf(User, "UserPage"), "A page of users.", "Link"), ...problems(400) },
});

users.openapi(list, async (c) => {
  const { limit, cursor, ...filter } = c.req.valid("query");
  const after = positionAt(c, cursor, z.string());
  const { rows, last } = cut(await listUsers(reading(c), { filter, after, limit: limit + 1 }), limit);
  return respondPage(c, rows.map(userData), last?.id ?? null);
});

const create = createRoute({
  method: "post",
  path: "/users",
  operationId: "createUser",
  summary: "Create a user",
  tags,
  ...requireScope("users:write"),
  ...withIdempotencyKey,
  request: { body: body(NewUser) },
  responses: { 201: postJson(User, "The new user.", "Location", "ETag"), ...problems(400, 409, 408, 413, 415, 422) },
});

users.openapi(create, (c) => {
  const input = c.req.valid("json");
  return runOnce(c, {
    run: (writing) => createUser(writing, input),
    respond: (user) => ({
      status: 201,
      body: userData(user),
      headers: { Location: `${c.req.path}/${user.id}`, ETag: etagOf(user.revision) },
    }),
  });
});

const read = createRoute({
  method: "get",
  path: "/users/{id}",
  operationId: "getUser",
  summary: "Get a user",
  tags,
  ...requireScope("users:read"),
  ...withConditions,
  request: { params },
  responses: { 200: json(User, "The user.", "ETag"), ...notModified, ...problems(400, 404, 412) },
});

users.openapi(read, async (c) => {
  const user = await readUser(reading(c), c.req.valid("param").id);
  return respondOne(c, userData(user), etagOf(user.revision));
});

const change = createRoute({
  method: "patch",
  path: "/users/{id}",
  operationId: "updateUser",
  summary: "Change a user",
  tags,
  ...requireScope("users:write"),
  ...withIfMatch,
  request: { params, body: mergePatch(UserPatch) },
  responses: { 200: json(User, "The whole user.", "ETag"), ...problems(400, 404, 409, 412, 408, 413, 415, 422) },
});

users.openapi(change, async (c) => {
  const user = await changeUser(writing(c), c.req.valid("param").id, omitUndefined(c.req.valid("json")), ifMatch(c));
  return respondJson(userData(user), 200, { ETag: etagOf(user.revision) });
});

const remove = createRoute({
  method: "delete",
  path: "/users/{id}",
  operationId: "deleteUser",
  summary: "Delete a user",
  description: "The user's tasks stay, without an assignee.",
  tags,
  ...requireScope("users:write"),
  ...withIfMatch,
  request: { params },
  responses: { 204: noContent("It is deleted."), ...problems(400, 404, 409, 412) },
});

users.openapi(remove, async (c) => {
  await deleteUser(writing(c), c.req.valid("param").id, ifMatch(c));
  return respondEmpty(204);
});
