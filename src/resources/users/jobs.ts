import { type Job, withoutCursor } from "../../jobs/job.ts";
import { minuteMs } from "../../lib/time/clock.ts";
import { finishDeletions } from "./delete-user.ts";

export const jobs: readonly Job[] = [
  {
    name: "finish_user_deletions",
    description: "finish interrupted deletions of users",
    everyMs: minuteMs,
    // This limit counts pieces of up to 500 tasks each.
    atMost: 12,
    run: withoutCursor(({ outbox, onDelete, now, atMost }) => finishDeletions(outbox, onDelete.users ?? [], now, atMost)),
  },
];
