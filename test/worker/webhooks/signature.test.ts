import { describe, expect, it } from "vitest";
import { signatureHeaders } from "../../../src/webhooks/subscriptions/signature.ts";

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
});
