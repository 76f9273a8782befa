import fc from "fast-check";
import { expect, it } from "vitest";
import type { KeyConfig } from "../../src/keys/admission.ts";
import { answerOf, encodeFacts, questionOf, readAnswer, readQuestion } from "../../src/keys/admission-messages.ts";

const text = fc.string({ unit: "binary", maxLength: 200 }).map((value) => value.toWellFormed());

it("A question comes to the guard as it was asked, whatever an address or scope holds", () => {
  const question = fc.record({ secretHash: fc.base64String(), ip: text, scope: fc.option(text), counted: fc.boolean() });
  fc.assert(
    fc.property(question, (asked) => {
      expect(readQuestion(new Request(...questionOf(asked)))).toEqual(asked);
    }),
  );
});

it("An answer comes back as the guard gave it, in whatever script a name is written", () => {
  const facts = fc.record({
    accountId: text,
    accountName: text,
    name: text,
    scopes: fc.array(text),
    expiresAt: fc.option(fc.nat()),
  });
  const refusal = fc.option(fc.constantFrom("invalid_key" as const, "rate_limit_exceeded" as const));
  const rateLimit = fc.record({ limit: fc.nat(), used: fc.nat(), resetsAt: fc.maxSafeNat() });
  fc.assert(
    fc.property(facts, refusal, rateLimit, (key, refused, limit) => {
      const answer = answerOf({ refusal: refused, rateLimit: limit }, encodeFacts(key as KeyConfig));
      expect(readAnswer(answer)).toEqual({ refusal: refused, rateLimit: limit, key });
    }),
  );
  expect(readAnswer(answerOf(null, ""))).toBeNull();
});
