import { connect } from "../src/db/client.ts";
import { parseSigningSecrets } from "../src/keys/key-format.ts";
import { seedDemo } from "./seed.ts";

// The Worker that makes the demo account: it answers any request with the account's secret key.

export default {
  async fetch(
    _request: Request,
    { DB, ACTIVITY_0, KEY_SIGNING_SECRETS }: { DB: D1Database; ACTIVITY_0: D1Database; KEY_SIGNING_SECRETS: string },
  ): Promise<Response> {
    const [signing] = parseSigningSecrets(KEY_SIGNING_SECRETS);
    return new Response(await seedDemo({ db: connect(DB), activity: ACTIVITY_0, signing, now: Date.now() }));
  },
};
