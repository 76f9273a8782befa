import { signingSecretsIn } from "../src/credentials/key-format.ts";
import { connect } from "../src/db/client.ts";
import { encryptionSecrets } from "../src/webhooks/subscriptions/encryption.ts";
import { seedDemo, seedEmpty } from "./seed.ts";

// This Worker creates an account when it receives a request, and responds with the secret key of the account. The path `/empty` creates an account
// without sample data, and any other path the demo account.

export default {
  async fetch(
    request: Request,
    env: { DB: D1Database; ACTIVITY_0: D1Database; KEY_SIGNING_SECRETS: string; KEY_SIGNING_SECRETS_2: string },
  ): Promise<Response> {
    const [signing] = signingSecretsIn(env);
    const encryption = () => encryptionSecrets(env);
    const [db, now] = [connect(env.DB), Date.now()];
    if (new URL(request.url).pathname === "/empty") return new Response(await seedEmpty({ db, signing, now }));
    return new Response(await seedDemo({ db, activity: connect(env.ACTIVITY_0), signing, encryption, now }));
  },
};
