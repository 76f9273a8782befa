// The manifests of all areas of the service.

export { manifest as accounts } from "./accounts/manifest.ts";
export { manifest as audit } from "./audit/manifest.ts";
export { manifest as events } from "./events/manifest.ts";
export { manifest as guard } from "./guard/manifest.ts";
export { manifest as idempotency } from "./idempotency/manifest.ts";
export { manifest as identity } from "./identity/manifest.ts";
export { manifest as keys } from "./keys/manifest.ts";
export { manifest as lifecycle } from "./lifecycle/manifest.ts";
export { manifest as log } from "./log/manifest.ts";
export { manifest as me } from "./me/manifest.ts";
export { manifest as monitoring } from "./monitoring/manifest.ts";
export { manifest as openapi } from "./openapi/manifest.ts";
export { manifest as operators } from "./operators/manifest.ts";
export { manifest as tokens } from "./tokens/manifest.ts";
export { manifest as usage } from "./usage/manifest.ts";
export { manifest as webhooks } from "./webhooks/manifest.ts";
