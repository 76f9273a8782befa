import type { Variables } from "../scripts/settings/schema.ts";

// The variables of the Worker that come from overview.toml. wrangler.toml has the others.

declare global {
  interface Env extends Variables {}
  namespace Cloudflare {
    interface Env extends Variables {}
  }
}
