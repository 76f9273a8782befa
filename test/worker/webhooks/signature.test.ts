import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { newWebhookSecret, signatureHeaders } from "../../../src/webhooks/subscriptions/signature.ts";

const body = '{"type":"task.created","timestamp":"2026-11-21T10:00:00.000Z","data":{"title":"\u00c9t\u00e9 \u2603"}}';
const verify = (secret: string, headers: object, text = body) => new Webhook(secret).verify(text, headers as Record<string, string>);

describe("The signature of a webhook request", () => {
  it("matches the example of the Standard Webhooks specification", () => {
    const headers = signatureHeaders(
      "msg_p5jXN8AQM9LWM0D4loKWxJek",
      '{"test": 2432232314}',
      ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
      1614265330_000,
    );
    expect(headers["webhook-signature"]).toBe("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    expect(headers["webhook-timestamp"]).toBe("1614265330");
  });

  it("is accepted by the public package only with the secret of the webhook", () => {
    const secret = newWebhookSecret();
    const headers = signatureHeaders("evt_1", body, [secret], Date.now());
    expect(verify(secret, headers)).toEqual(JSON.parse(body));
    expect(() => verify(newWebhookSecret(), headers)).toThrow();
  });

  it.each([
    ["body", {}, body.replace("created", "deleted")],
    ["id", { "webhook-id": "evt_2" }, body],
    ["time", { "webhook-timestamp": String(Math.floor(Date.now() / 1000) - 1) }, body],
    ["time (to a time long ago)", { "webhook-timestamp": "1614265330" }, body],
  ])("is rejected if the %s was changed", (_, changed, text) => {
    const secret = newWebhookSecret();
    const headers = { ...signatureHeaders("evt_1", body, [secret], Date.now()), ...changed };
    expect(() => verify(secret, headers, text)).toThrow();
  });

  it("is made with both secrets during the overlap of a rotation, and each secret verifies it", () => {
    const [previous, current, other] = [newWebhookSecret(), newWebhookSecret(), newWebhookSecret()];
    const both = signatureHeaders("evt_1", body, [current, previous], Date.now());
    expect(both["webhook-signature"].split(" ").length).toBe(2);
    for (const secret of [previous, current]) expect(verify(secret, both)).toEqual(JSON.parse(body));
    expect(() => verify(other, both)).toThrow();
    const afterOverlap = signatureHeaders("evt_1", body, [current], Date.now());
    expect(() => verify(previous, afterOverlap)).toThrow();
  });
});
