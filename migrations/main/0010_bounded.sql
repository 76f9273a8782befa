DROP INDEX `sessions_by_member`;--> statement-breakpoint
CREATE INDEX `sessions_by_member` ON `sessions` (`member_id`,`id`);--> statement-breakpoint
DROP INDEX `tasks_by_assignee`;--> statement-breakpoint
CREATE INDEX `tasks_by_assignee` ON `tasks` (`account_id`,`assignee_id`,`status`,`completed_at`);--> statement-breakpoint
DROP INDEX `users_to_delete`;--> statement-breakpoint
CREATE INDEX `users_to_delete` ON `users` (`account_id`,`deletion_requested_at`) WHERE deletion_requested_at IS NOT NULL;