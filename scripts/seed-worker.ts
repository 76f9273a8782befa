import { signingSecretsIn } from "../src/credentials/key-format.ts";
import { connect } from "../src/db/client.ts";
import { seedDemo } from "./seed.ts";

// A Worker that creates the demo account on any request, and responds with the account's secret key.

export default {
  async fetch(
    _request: Request,
    env: { DB: D1Database; ACTIVITY_0: D1Database; KEY_SIGNING_SECRETS: string; KEY_SIGNING_SECRETS_2: string },
  ): Promise<Response> {
    const [signing] = signingSecretsIn(env);
    return new Response(await seedDemo({ db: connect(env.DB), activity: env.ACTIVITY_0, signing, now: Date.now() }));
  },
};
