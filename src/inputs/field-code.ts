import type { z } from "zod";
import type { FieldErrorCode } from "../errors/failure.ts";

/** Returns the code of a field error for what zod found: its own where the contract has it, that of `params` for our own checks. */
export function fieldCode(issue: z.core.$ZodIssue): FieldErrorCode {
  switch (issue.code) {
    case "custom":
      return (issue.params?.code ?? "invalid") as FieldErrorCode;
    case "unrecognized_keys":
      return "unknown_member";
    case "invalid_key":
    case "invalid_element":
      return "invalid";
    default:
      return issue.code;
  }
}
