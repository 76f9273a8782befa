import worker from "../src/index.ts";

// The entry of the local Worker. Any program or web page on this machine can trigger the scheduled jobs of the local runtime, and can name
// a time. With a time in the future, the jobs would delete current data. The local Worker therefore runs its jobs at the current time.

export * from "../src/index.ts";

export default {
  ...worker,
  scheduled: (controller, env, ctx) => worker.scheduled({ ...controller, scheduledTime: Date.now() }, env, ctx),
} satisfies typeof worker;
