CREATE TABLE `endings` (
	`account_id` text NOT NULL,
	`target_id` text NOT NULL,
	`target_name` text NOT NULL,
	`action` text NOT NULL,
	`actor_type` text NOT NULL,
	`actor_id` text,
	`ip` text,
	`country` text,
	`created_at` integer NOT NULL,
	`row_bytes` integer GENERATED ALWAYS AS (260 + octet_length(concat(`account_id`, `target_id`)) + octet_length(concat(`account_id`, `target_id`, `target_name`, `action`, `actor_type`, `actor_id`, `ip`, `country`)) + iif(octet_length(concat(`account_id`, `target_id`, `target_name`, `action`, `actor_type`, `actor_id`, `ip`, `country`)) > 920, 4096, 0)) VIRTUAL,
	PRIMARY KEY(`account_id`, `target_id`)
);
--> statement-breakpoint
CREATE INDEX `endings_by_time` ON `endings` (`created_at`);--> statement-breakpoint
DROP INDEX `sessions_by_member`;--> statement-breakpoint
CREATE INDEX `sessions_by_member` ON `sessions` (`member_id`,`last_seen_at`);--> statement-breakpoint
DROP INDEX `tasks_by_assignee`;--> statement-breakpoint
CREATE INDEX `tasks_by_assignee` ON `tasks` (`account_id`,`assignee_id`,`status`,`completed_at`);--> statement-breakpoint
DROP INDEX `users_to_delete`;--> statement-breakpoint
CREATE INDEX `users_to_delete` ON `users` (`account_id`,`deletion_requested_at`) WHERE deletion_requested_at IS NOT NULL;--> statement-breakpoint
CREATE TRIGGER `endings_added` AFTER INSERT ON `endings` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `endings_changed` AFTER UPDATE ON `endings` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `endings_deleted` AFTER DELETE ON `endings` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;
