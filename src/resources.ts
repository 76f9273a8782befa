// The manifests of all areas of the service. `src/registry/` reads this list. `docs/make-it-yours.md` explains how to add an area.

export { manifest as accounts } from "./accounts/manifest.ts";
export { manifest as activity } from "./activity/manifest.ts";
export { manifest as admission } from "./admission/manifest.ts";
export { manifest as audit } from "./audit/manifest.ts";
export { manifest as events } from "./events/manifest.ts";
export { manifest as idempotency } from "./idempotency/manifest.ts";
export { manifest as identity } from "./identity/manifest.ts";
export { manifest as keys } from "./keys/manifest.ts";
export { manifest as me } from "./me/manifest.ts";
export { manifest as openapi } from "./openapi/manifest.ts";
export { manifest as operations } from "./operations/manifest.ts";
export { manifest as analytics } from "./resources/analytics/manifest.ts";
export { manifest as tasks } from "./resources/tasks/manifest.ts";
export { manifest as users } from "./resources/users/manifest.ts";
export { manifest as serviceTokens } from "./service-tokens/manifest.ts";
export { manifest as usage } from "./usage/manifest.ts";
export { manifest as webhooks } from "./webhooks/manifest.ts";
