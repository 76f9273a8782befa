import { createApp } from "./app.ts";
import { everyMinute } from "./every-minute.ts";

export { KeyGuard } from "./keys/key-guard.ts";

/** A constant of the build: true only in the Worker that `npm start` runs. */
declare const LOCAL_BUILD: boolean;

const app = createApp({ isLocal: LOCAL_BUILD });

export default {
  fetch: app.fetch,
  scheduled: ({ scheduledTime }, env) => everyMinute(env, scheduledTime),
} satisfies ExportedHandler<Env>;
