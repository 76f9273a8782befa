// The manifests of the resources: the one file in which the core meets them. `docs/make-it-yours.md` explains how to add a resource.

export type { Manifest } from "./db/manifest.ts";
export { manifest as analytics } from "./resources/analytics/manifest.ts";
export { manifest as tasks } from "./resources/tasks/manifest.ts";
export { manifest as users } from "./resources/users/manifest.ts";
