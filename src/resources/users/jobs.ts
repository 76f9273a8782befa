import { type Job, withoutCursor } from "../../jobs/job.ts";
import { minuteMs } from "../../time/clock.ts";
import { finishDeletions } from "./delete-user.ts";

export const jobs: readonly Job[] = [
  {
    name: "finish_user_deletions",
    description: "finish interrupted deletions of users",
    everyMs: minuteMs,
    // The unit of this limit is a piece of up to 500 tasks.
    atMost: 12,
    run: withoutCursor(({ outbox, now, atMost }) => finishDeletions(outbox, now, atMost)),
  },
];
