import { describe, expect, it } from "vitest";
import { type AdmissionRequest, type KeyFacts, refusalCodes } from "../../src/keys/admission.ts";
import { admissionText, readAdmission, readRequest, requestText } from "../../src/keys/admission-text.ts";

const secretHash = "0123456789abcdef".repeat(4);
const refusals = [null, ...refusalCodes];

describe("What a guard is asked and answers", () => {
  it("is read as it was written, whatever the address and the scope", () => {
    for (const ip of ["198.51.100.7", "2001:db8::1", "", "-", "not an address at all", " "])
      for (const scope of [null, "tasks:write"])
        for (const counted of [true, false]) {
          const request: AdmissionRequest = { secretHash, ip, scope, counted };
          expect(readRequest(requestText(request))).toEqual(request);
        }
  });

  it("is refused in any other form", () => {
    const [text, admission] = [`${secretHash} - true 198.51.100.7`, admissionText(null, { limit: 1, used: 1, resetsAt: 1 }, "{}")];
    expect(readRequest(text)).toMatchObject({ counted: true });
    for (const other of ["", secretHash, `${secretHash} -`, `${secretHash} - true`, `1 ${text}`, text.replace("true", "yes")])
      expect(() => readRequest(other), other).toThrow();
    for (const other of [
      "",
      "-",
      "1",
      admission.replace("- ", ""),
      admission.replace("{}", ""),
      `x${admission}`,
      `-${admission}`,
      admission.replace("-", "1"),
    ])
      expect(() => readAdmission(other), other).toThrow();
  });

  it("is read with its own count, though all else was read before", () => {
    const usedIn = (used: number) =>
      readAdmission(admissionText(null, { limit: 5000, used, resetsAt: 1_797_000_000_000 }, "{}")).rateLimit.used;
    expect([usedIn(1), usedIn(2), usedIn(1)]).toEqual([1, 2, 1]);
  });

  it("is read as it was written, whatever the names and the refusal", () => {
    for (const name of ["Key", "", '"quoted" \\ back', "line\nbreak", "- 1 2 3 {}", "ключ 🔑"])
      for (const refusal of refusals) {
        const key: KeyFacts = {
          accountId: "acc_1",
          accountName: name,
          name,
          scopes: ["users:read"],
          expiresAt: name ? 1_800_000_000_000 : null,
        };
        const rateLimit = { limit: 5000, used: 4999, resetsAt: 1_797_000_000_000 };
        expect(readAdmission(admissionText(refusal, rateLimit, JSON.stringify(key)))).toEqual({ refusal, key, rateLimit });
      }
  });
});
