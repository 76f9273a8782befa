import { countD1, counts } from "./counting.ts";
import naive from "./naive.ts";

/** The naive design. This Worker also counts the D1 statements and rows. */
export default {
  fetch(request, env, ctx) {
    countD1(env.DB);
    return new URL(request.url).pathname === "/counts" ? Response.json(counts) : naive.fetch(request, env, ctx);
  },
} satisfies ExportedHandler<Env>;
