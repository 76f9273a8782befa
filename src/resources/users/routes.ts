import { createRoute, z } from "@hono/zod-openapi";
import { etagOf, preconditionOf, respondOne } from "../../api/conditional.ts";
import { runIdempotentPost } from "../../api/idempotency.ts";
import { contextOf } from "../../api/operation-contexts.ts";
import { respondEmpty, respondJson } from "../../api/respond.ts";
import { failsWith, requireScope, sharesCpu } from "../../api/route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../../api/route-parts/pages.ts";
import { body, del, get, mergePatch, patch, post, withConditions, withIdempotencyKey } from "../../api/route-parts/requests.ts";
import { json, noContent, notModified, postJson } from "../../api/route-parts/responses.ts";
import { component, idParam, pageQuery, severalWords } from "../../api/route-parts/schemas.ts";
import { createRouter } from "../../api/router.ts";
import { omitUndefined } from "../../lib/inputs/omit-undefined.ts";
import { text } from "../../lib/inputs/values.ts";
import { onDelete } from "../on-delete.ts";
import { deleteUser } from "./delete-user.ts";
import { listUsers, readUser } from "./read-users.ts";
import * as schemas from "./schemas.ts";
import { UserData, userData } from "./schemas.ts";
import { roles, userStatuses } from "./user.ts";
import { changeUser, createUser } from "./write-users.ts";

const User = component("User", UserData, {
  description: "A user of the account. The role and the status of a user grant no access to this service.",
});
const NewUser = component("NewUser", schemas.NewUser, { description: "A new user." });
const UserPatch = component("UserPatch", schemas.UserPatch, {
  description: "The changes to a user.",
  example: { role: "admin" },
});

const params = idParam("usr_019a1b2c3d4e7f8091a2b3c4d5e6f708");
const tags = ["Users"];

export const routes = createRouter();

const list = createRoute({
  ...get("/users", "listUsers", "List users"),
  description:
    "Lists the users of the account, newest first. Users are records about the people in your application. Your application decides what a user may do. To give people access to the overview, invite them on its Settings page.",
  tags,
  ...requireScope("users:read"),
  ...sharesCpu,
  request: {
    query: z.strictObject({
      ...pageQuery,
      role: severalWords(roles, "Returns only users with one of these roles"),
      status: severalWords(userStatuses, "Returns only users with one of these statuses"),
      q: text(1, 200)
        .optional()
        .meta({ description: "Returns only users whose name or email address contains this text, regardless of case.", example: "ada" }),
    }),
  },
  responses: { 200: json(pageOf(User, "UserPage"), "A page of users.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, role: roles, status: statuses, q } = c.req.valid("query");
  const after = positionAt(c, cursor, z.string());
  const { rows, next } = await listUsers(contextOf(c), { filter: { roles, statuses, q }, after, limit });
  return respondPage(c, rows.map(userData), next);
});

const create = createRoute({
  ...post("/users", "createUser", "Create a user"),
  description:
    "Creates a user. If another user of the account has the same email address, regardless of case, the response is 409 `conflict`. Sends the event `user.created`.",
  tags,
  ...requireScope("users:write"),
  ...failsWith("conflict"),
  ...withIdempotencyKey,
  request: { body: body(NewUser) },
  responses: { 201: postJson(User, "The new user.", "Location", "ETag") },
});

routes.openapi(create, (c) => {
  const input = c.req.valid("json");
  return runIdempotentPost(c, {
    run: (context) => createUser(context, input),
    respond: (user) => ({
      status: 201,
      body: userData(user),
      headers: { Location: `${c.req.path}/${user.id}`, ETag: etagOf(user.revision) },
    }),
  });
});

const read = createRoute({
  ...get("/users/{id}", "getUser", "Get a user"),
  description: "Returns one user. With `If-None-Match`, the response is 304 without a body if the user is unchanged.",
  tags,
  ...requireScope("users:read"),
  ...withConditions,
  request: { params },
  responses: { 200: json(User, "The user.", "ETag"), ...notModified },
});

routes.openapi(read, async (c) => {
  const user = await readUser(contextOf(c), c.req.valid("param").id);
  return respondOne(c, userData(user), etagOf(user.revision));
});

const change = createRoute({
  ...patch("/users/{id}", "updateUser", "Change a user"),
  description:
    "Changes the members that you send, and keeps the other members. With `If-Match`, the user is changed only if the current version matches. Sends the event `user.updated` if something changed.",
  tags,
  ...requireScope("users:write"),
  ...failsWith("conflict", "limit_reached"),
  ...withConditions,
  request: { params, body: mergePatch(UserPatch) },
  responses: { 200: json(User, "The user after the change.", "ETag") },
});

routes.openapi(change, async (c) => {
  const user = await changeUser(contextOf(c), c.req.valid("param").id, omitUndefined(c.req.valid("json")), preconditionOf(c));
  return respondJson(c, userData(user), 200, { ETag: etagOf(user.revision) });
});

const remove = createRoute({
  ...del("/users/{id}", "deleteUser", "Delete a user"),
  description:
    "Permanently deletes the user. The tasks of the user are kept, but they no longer have an assignee. Sends the event `user.deleted`, and also sends `task.updated` for each task of the user. One deletion request changes at most 10,000 tasks, or 2,500 tasks if the account has 20 webhooks. The remaining tasks are changed within minutes after the response, and `user.deleted` is sent last. If 100 users of the account are still being deleted, the response is 409 `limit_reached`.",
  tags,
  ...requireScope("users:write"),
  ...failsWith("conflict", "limit_reached"),
  ...withConditions,
  request: { params },
  responses: { 204: noContent("The user is deleted.") },
});

routes.openapi(remove, async (c) => {
  await deleteUser(contextOf(c), c.req.valid("param").id, preconditionOf(c), onDelete.users ?? []);
  return respondEmpty(c, 204);
});
