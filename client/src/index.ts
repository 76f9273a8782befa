export { WebhookVerificationError } from "standardwebhooks";
export { type ApiClient, type ClientOptions, createClient, dataOf } from "./client.ts";
export { type ItemOf, type ListPath, pages } from "./pages.ts";
export { type Problem, type ProblemCode, ProblemError, problemCodes, UnexpectedAnswerError } from "./problem.ts";
export type { RetryOptions } from "./retry.ts";
export type { components, operations, paths, webhooks } from "./schema.ts";
export { verifyWebhook, type WebhookEvent } from "./webhook.ts";
