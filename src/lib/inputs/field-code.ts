import type { z } from "zod";
import type { FieldErrorCode } from "../errors/failure.ts";

/** Returns the field error code for a zod issue. Custom checks state their code in `params`. Most other issues keep zod's own code. */
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
