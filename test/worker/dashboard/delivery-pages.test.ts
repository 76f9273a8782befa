import { describe, expect, it, vi } from "vitest";
import { browse, textOf } from "../support/browse.ts";
import { call, makeTenant } from "../support/client.ts";
import { makePerson } from "../support/people.ts";
import { deliveryWait, newPath, receiver, register } from "../support/receiver.ts";

async function makeFailingWebhook() {
  const { accountId, key } = await makeTenant();
  const body = { url: receiver + newPath("fail"), event_types: ["task.created"] };
  const { body: webhook } = await call("POST", "/api/v1/webhooks", { key, body });
  return { webhook, key, ...browse(accountId) };
}

describe("A delivery of an event that says what members did", () => {
  it("has no link for a member who may not read the event, and its page says whom to ask", async () => {
    const tenant = await makeTenant();
    const { accountId, key } = tenant;
    const { id: webhookId } = await register(key, { event_types: ["member.invited"] });
    const { body } = await call("POST", `/api/v1/webhooks/${webhookId}/test`, { key, body: { event_type: "member.invited" } });
    const path = `/deliveries/${body.delivery_id}`;
    const owner = await makePerson(accountId, "owner");
    const developer = await makePerson(accountId, "developer");
    expect((await owner.get(`/webhooks/${webhookId}`)).text).toContain(`href="${path}"`);
    expect((await owner.get(path)).status).toBe(200);
    const list = await developer.get(`/webhooks/${webhookId}`);
    expect(list.text).toContain("member.invited");
    expect(list.text).not.toContain(`href="${path}"`);
    const page = await developer.get(path);
    expect([page.status, textOf(page)]).toEqual([403, expect.stringMatching(/Not allowed.*Ask one of these members:.*owner/)]);
  });
});

describe("The notice after an action", () => {
  it("says of a test event that it is on its way, and then what became of it", async () => {
    const { webhook, get, post } = await makeFailingWebhook();
    const sent = await post(`/webhooks/${webhook.id}/test`, {});
    const path = sent.headers.get("Location") ?? "";
    expect(path).toMatch(/^\/webhooks\/whk_\w+\?tested=dlv_/);
    await vi.waitFor(async () => expect(textOf(await get(path))).toContain("The test event failed: 500."), deliveryWait);
    expect(textOf(await get(path))).toContain("Send again");
    // Another webhook shows nothing of it.
    const other = await makeFailingWebhook();
    expect(textOf(await get(path.replace(webhook.id, other.webhook.id)))).not.toContain("test event failed");
  });
});
