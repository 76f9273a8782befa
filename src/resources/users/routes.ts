import { createRoute, z } from "@hono/zod-openapi";
import { readContext, writeContext } from "../../api/acting.ts";
import { etagOf, preconditionOf, respondOne } from "../../api/middleware/conditional.ts";
import { runIdempotently } from "../../api/middleware/idempotency.ts";
import { respondEmpty, respondJson } from "../../api/respond.ts";
import { failsWith, requireScope } from "../../api/route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../../api/route-parts/pages.ts";
import { body, mergePatch, withConditions, withIdempotencyKey } from "../../api/route-parts/requests.ts";
import { json, noContent, notModified, postJson } from "../../api/route-parts/responses.ts";
import { component, idParam, pageQuery, severalWords } from "../../api/route-parts/schemas.ts";
import { createRouter } from "../../api/router.ts";
import { omitUndefined } from "../../inputs/omit-undefined.ts";
import { text } from "../../inputs/values.ts";
import { deleteUser } from "./delete-user.ts";
import { listUsers, readUser } from "./read-users.ts";
import * as schemas from "./schemas.ts";
import { UserData, userData } from "./schemas.ts";
import { roles, userStatuses } from "./user.ts";
import { changeUser, createUser } from "./write-users.ts";

const User = component("User", UserData, {
  description: "A user of the account. Role and status grant nothing in this service.",
});
const NewUser = component("NewUser", schemas.NewUser, { description: "A new user." });
const UserPatch = component("UserPatch", schemas.UserPatch, {
  description: "The members of a user to change.",
  example: { role: "admin" },
});

const params = idParam("usr_019a1b2c3d4e7f8091a2b3c4d5e6f708");
const tags = ["Users"];

export const routes = createRouter();

const list = createRoute({
  method: "get",
  path: "/users",
  operationId: "listUsers",
  summary: "List users",
  description:
    "The account's own people, newest first. They are data of yours: whether one of them may do something is for you to decide. To sign people in to the overview, invite them in its settings.",
  tags,
  ...requireScope("users:read"),
  request: {
    query: z.strictObject({
      ...pageQuery,
      role: severalWords(roles, "Only users with one of these roles"),
      status: severalWords(userStatuses, "Only users with one of these statuses"),
      q: text(1, 200).optional().meta({ description: "Part of a name or email address, in any case.", example: "ada" }),
    }),
  },
  responses: { 200: json(pageOf(User, "UserPage"), "A page of users.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, role: roles, status: statuses, q } = c.req.valid("query");
  const after = positionAt(c, cursor, z.string());
  const { rows, next } = await listUsers(readContext(c), { filter: { roles, statuses, q }, after, limit });
  return respondPage(c, rows.map(userData), next);
});

const create = createRoute({
  method: "post",
  path: "/users",
  operationId: "createUser",
  summary: "Create a user",
  description:
    "Creates a user. If the account already has a user with this email address in any case, the response is 409 `conflict`. Sends the event `user.created`.",
  tags,
  ...requireScope("users:write"),
  ...failsWith("conflict"),
  ...withIdempotencyKey,
  request: { body: body(NewUser) },
  responses: { 201: postJson(User, "The new user.", "Location", "ETag") },
});

routes.openapi(create, (c) => {
  const input = c.req.valid("json");
  return runIdempotently(c, {
    run: (context) => createUser(context, input),
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
  description: "Returns one user. With `If-None-Match` the response is 304 without a body if the user is unchanged.",
  tags,
  ...requireScope("users:read"),
  ...withConditions,
  request: { params },
  responses: { 200: json(User, "The user.", "ETag"), ...notModified },
});

routes.openapi(read, async (c) => {
  const user = await readUser(readContext(c), c.req.valid("param").id);
  return respondOne(c, userData(user), etagOf(user.revision));
});

const change = createRoute({
  method: "patch",
  path: "/users/{id}",
  operationId: "updateUser",
  summary: "Change a user",
  description:
    "Changes the members that are sent and leaves the others. With `If-Match` only the version that the client has seen. Sends `user.updated`, where something has changed.",
  tags,
  ...requireScope("users:write"),
  ...failsWith("conflict", "limit_reached"),
  ...withConditions,
  request: { params, body: mergePatch(UserPatch) },
  responses: { 200: json(User, "The whole user.", "ETag") },
});

routes.openapi(change, async (c) => {
  const user = await changeUser(writeContext(c), c.req.valid("param").id, omitUndefined(c.req.valid("json")), preconditionOf(c));
  return respondJson(c, userData(user), 200, { ETag: etagOf(user.revision) });
});

const remove = createRoute({
  method: "delete",
  path: "/users/{id}",
  operationId: "deleteUser",
  summary: "Delete a user",
  description:
    "Deletes the user for good. Their tasks stay, without an assignee. For each of these tasks `task.updated` is sent, in addition to `user.deleted`. Above 10,000 tasks, the response does not wait for all of them: the rest follow within minutes, and `user.deleted` is sent last. While 100 users are still being deleted: 409 `limit_reached`.",
  tags,
  ...requireScope("users:write"),
  ...failsWith("conflict", "limit_reached"),
  ...withConditions,
  request: { params },
  responses: { 204: noContent("It is deleted.") },
});

routes.openapi(remove, async (c) => {
  await deleteUser(writeContext(c), c.req.valid("param").id, preconditionOf(c));
  return respondEmpty(c, 204);
});
