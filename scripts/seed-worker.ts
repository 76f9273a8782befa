import { signingSecretsIn } from "../src/credentials/key-format.ts";
import { connect } from "../src/db/client.ts";
import { encryptionSecrets } from "../src/webhooks/encryption.ts";
import { seedDemo } from "./seed.ts";

// This Worker creates the demo account when it receives a request. It responds with the secret key of the account.

export default {
  async fetch(
    _request: Request,
    env: { DB: D1Database; ACTIVITY_0: D1Database; KEY_SIGNING_SECRETS: string; KEY_SIGNING_SECRETS_2: string },
  ): Promise<Response> {
    const [signing] = signingSecretsIn(env);
    const encryption = encryptionSecrets(env);
    return new Response(await seedDemo({ db: connect(env.DB), activity: connect(env.ACTIVITY_0), signing, encryption, now: Date.now() }));
  },
};
