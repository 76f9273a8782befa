CREATE TABLE `account_storage` (
	`account_id` text PRIMARY KEY NOT NULL,
	`users` integer DEFAULT 0 NOT NULL,
	`tasks` integer DEFAULT 0 NOT NULL,
	`events` integer DEFAULT 0 NOT NULL,
	`idempotency_keys` integer DEFAULT 0 NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `accounts` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`email` text NOT NULL,
	`limit_ceiling` integer DEFAULT 5000 NOT NULL,
	`activity_store` text DEFAULT 'ACTIVITY_0' NOT NULL,
	`keep_days` integer,
	`sample_until` integer,
	`created_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `api_keys` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`name` text NOT NULL,
	`last4` text NOT NULL,
	`secret_hash` text NOT NULL,
	`previous_secret_hash` text,
	`overlap_ends_at` integer,
	`scopes` text NOT NULL,
	`state` text NOT NULL,
	`hourly_limit` integer NOT NULL,
	`allowed_ips` text NOT NULL,
	`expires_at` integer,
	`notified_expiry` integer,
	`version` integer NOT NULL,
	`pushed_version` integer NOT NULL,
	`revision` text NOT NULL,
	`created_by_type` text,
	`created_by_id` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `api_keys_by_account` ON `api_keys` (`account_id`,`created_at`,`id`);--> statement-breakpoint
CREATE INDEX `api_keys_unpushed` ON `api_keys` (`id`) WHERE pushed_version < version;--> statement-breakpoint
CREATE INDEX `api_keys_unnotified` ON `api_keys` (`expires_at`) WHERE notified_expiry IS NOT expires_at AND state <> 'revoked';--> statement-breakpoint
CREATE TABLE `attempts` (
	`delivery_id` text NOT NULL,
	`id` text NOT NULL,
	`at` integer NOT NULL,
	`status` integer,
	`duration_ms` integer NOT NULL,
	`error` text,
	`advice` text,
	`response_body` text NOT NULL,
	`response_headers` text NOT NULL,
	PRIMARY KEY(`delivery_id`, `id`)
);
--> statement-breakpoint
CREATE TABLE `audit` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
	`actor_type` text NOT NULL,
	`actor_id` text,
	`action` text NOT NULL,
	`target_type` text NOT NULL,
	`target_id` text NOT NULL,
	`target_name` text,
	`ip` text,
	`country` text,
	`changes` text NOT NULL,
	PRIMARY KEY(`account_id`, `id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `database_sizes` (
	`binding` text PRIMARY KEY NOT NULL,
	`bytes` integer NOT NULL,
	`is_full` integer NOT NULL,
	`measured_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `deliveries` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`webhook_id` text NOT NULL,
	`event_id` text NOT NULL,
	`event_type` text NOT NULL,
	`redelivery_of` text,
	`redelivery_id` text,
	`status` text NOT NULL,
	`attempts_made` integer NOT NULL,
	`next_attempt_at` integer,
	`claim` text,
	`claimed_until` integer NOT NULL,
	`reserved_until` integer DEFAULT 0 NOT NULL,
	`created_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `deliveries_by_webhook` ON `deliveries` (`account_id`,`webhook_id`,`id`);--> statement-breakpoint
CREATE INDEX `deliveries_waiting` ON `deliveries` (`webhook_id`,`next_attempt_at`) WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX `deliveries_claimed` ON `deliveries` (`account_id`,`webhook_id`) WHERE claim IS NOT NULL;--> statement-breakpoint
CREATE INDEX `deliveries_by_redelivery` ON `deliveries` (`redelivery_id`) WHERE redelivery_id IS NOT NULL;--> statement-breakpoint
CREATE TABLE `events` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
	`type` text NOT NULL,
	`data` text NOT NULL,
	`created_at` integer NOT NULL,
	`sequence` integer NOT NULL,
	`request_id` text,
	PRIMARY KEY(`account_id`, `id`)
);
--> statement-breakpoint
CREATE INDEX `events_by_sequence` ON `events` (`account_id`,`sequence`);--> statement-breakpoint
CREATE TABLE `idempotency_keys` (
	`account_id` text NOT NULL,
	`operation` text NOT NULL,
	`key_hash` text NOT NULL,
	`fingerprint` text NOT NULL,
	`status` integer NOT NULL,
	`headers` text NOT NULL,
	`body` text NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `operation`, `key_hash`)
);
--> statement-breakpoint
CREATE TABLE `invitations` (
	`token_hash` text PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`account_id` text NOT NULL,
	`kind` text NOT NULL,
	`role` text NOT NULL,
	`email` text NOT NULL,
	`invited_by` text,
	`used_by` text,
	`expires_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `invitations_by_account` ON `invitations` (`account_id`);--> statement-breakpoint
CREATE TABLE `jobs` (
	`name` text PRIMARY KEY NOT NULL,
	`cursor` text NOT NULL,
	`ran_at` integer NOT NULL,
	`took_ms` integer NOT NULL,
	`done` integer NOT NULL,
	`has_more` integer NOT NULL,
	`error` text
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `members` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`name` text NOT NULL,
	`email` text NOT NULL,
	`email_key` text NOT NULL,
	`role` text NOT NULL,
	`removed_at` integer,
	`last_seen_at` integer,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `members_by_account` ON `members` (`account_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `members_by_email` ON `members` (`email_key`,`account_id`) WHERE removed_at IS NULL;--> statement-breakpoint
CREATE TABLE `passkeys` (
	`id` text PRIMARY KEY NOT NULL,
	`member_id` text NOT NULL,
	`name` text NOT NULL,
	`public_key` text NOT NULL,
	`counter` integer NOT NULL,
	`transports` text NOT NULL,
	`last_used_at` integer,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`member_id`) REFERENCES `members`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `passkeys_by_member` ON `passkeys` (`member_id`);--> statement-breakpoint
CREATE TABLE `recovery_codes` (
	`code_hash` text PRIMARY KEY NOT NULL,
	`member_id` text NOT NULL,
	`used_at` integer,
	FOREIGN KEY (`member_id`) REFERENCES `members`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `recovery_codes_by_member` ON `recovery_codes` (`member_id`);--> statement-breakpoint
CREATE TABLE `redeliveries` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
	`webhook_id` text NOT NULL,
	`count` integer NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `sessions` (
	`token_hash` text PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`member_id` text NOT NULL,
	`verified_at` integer NOT NULL,
	`last_seen_at` integer NOT NULL,
	`ip` text,
	`country` text,
	`user_agent` text,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`member_id`) REFERENCES `members`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `sessions_by_member` ON `sessions` (`member_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `sessions_by_id` ON `sessions` (`id`);--> statement-breakpoint
CREATE INDEX `sessions_by_creation` ON `sessions` (`created_at`);--> statement-breakpoint
CREATE TABLE `spent_challenges` (
	`challenge_hash` text PRIMARY KEY NOT NULL,
	`expires_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `spent_challenges_by_expiry` ON `spent_challenges` (`expires_at`);--> statement-breakpoint
CREATE TABLE `tasks` (
	`id` text NOT NULL,
	`account_id` text NOT NULL,
	`title` text NOT NULL,
	`description` text NOT NULL,
	`search_text` text NOT NULL,
	`status` text NOT NULL,
	`priority` text NOT NULL,
	`assignee_id` text,
	`labels` text NOT NULL,
	`due_at` integer,
	`completed_at` integer,
	`revision` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `id`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`account_id`,`assignee_id`) REFERENCES `users`(`account_id`,`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `tasks_by_assignee` ON `tasks` (`account_id`,`assignee_id`);--> statement-breakpoint
CREATE INDEX `tasks_by_update` ON `tasks` (`account_id`,`updated_at`,`id`);--> statement-breakpoint
CREATE INDEX `tasks_by_due` ON `tasks` (`account_id`,`due_at`,`id`);--> statement-breakpoint
CREATE INDEX `tasks_for_analytics` ON `tasks` (`account_id`,`status`,`priority`,`assignee_id`,`created_at`,`completed_at`,`due_at`);--> statement-breakpoint
CREATE TABLE `users` (
	`id` text NOT NULL,
	`account_id` text NOT NULL,
	`name` text NOT NULL,
	`email` text NOT NULL,
	`email_key` text NOT NULL,
	`search_text` text NOT NULL,
	`role` text NOT NULL,
	`status` text NOT NULL,
	`deletion_requested_at` integer,
	`revision` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `id`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `users_by_email` ON `users` (`account_id`,`email_key`);--> statement-breakpoint
CREATE INDEX `users_to_delete` ON `users` (`deletion_requested_at`) WHERE deletion_requested_at IS NOT NULL;--> statement-breakpoint
CREATE TABLE `webhooks` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
	`number` integer NOT NULL,
	`url` text NOT NULL,
	`description` text NOT NULL,
	`event_types` text NOT NULL,
	`state` text NOT NULL,
	`disabled_reason` text,
	`sealed_secret` text NOT NULL,
	`previous_sealed_secret` text,
	`overlap_ends_at` integer,
	`failing_since` integer,
	`revision` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `id`)
) WITHOUT ROWID;--> statement-breakpoint
CREATE TRIGGER `users_added` AFTER INSERT ON `users` BEGIN INSERT OR IGNORE INTO `account_storage` (`account_id`) VALUES (NEW.`account_id`); UPDATE `account_storage` SET `users` = `users` + 1 WHERE `account_id` = NEW.`account_id`; END;
--> statement-breakpoint
CREATE TRIGGER `users_deleted` AFTER DELETE ON `users` BEGIN UPDATE `account_storage` SET `users` = `users` - 1 WHERE `account_id` = OLD.`account_id`; END;
--> statement-breakpoint
CREATE TRIGGER `tasks_added` AFTER INSERT ON `tasks` BEGIN INSERT OR IGNORE INTO `account_storage` (`account_id`) VALUES (NEW.`account_id`); UPDATE `account_storage` SET `tasks` = `tasks` + 1 WHERE `account_id` = NEW.`account_id`; END;
--> statement-breakpoint
CREATE TRIGGER `tasks_deleted` AFTER DELETE ON `tasks` BEGIN UPDATE `account_storage` SET `tasks` = `tasks` - 1 WHERE `account_id` = OLD.`account_id`; END;
--> statement-breakpoint
CREATE TRIGGER `events_added` AFTER INSERT ON `events` BEGIN INSERT OR IGNORE INTO `account_storage` (`account_id`) VALUES (NEW.`account_id`); UPDATE `account_storage` SET `events` = `events` + 1 WHERE `account_id` = NEW.`account_id`; END;
--> statement-breakpoint
CREATE TRIGGER `events_deleted` AFTER DELETE ON `events` BEGIN UPDATE `account_storage` SET `events` = `events` - 1 WHERE `account_id` = OLD.`account_id`; END;
--> statement-breakpoint
CREATE TRIGGER `idempotency_keys_added` AFTER INSERT ON `idempotency_keys` BEGIN INSERT OR IGNORE INTO `account_storage` (`account_id`) VALUES (NEW.`account_id`); UPDATE `account_storage` SET `idempotency_keys` = `idempotency_keys` + 1 WHERE `account_id` = NEW.`account_id`; END;
--> statement-breakpoint
CREATE TRIGGER `idempotency_keys_deleted` AFTER DELETE ON `idempotency_keys` BEGIN UPDATE `account_storage` SET `idempotency_keys` = `idempotency_keys` - 1 WHERE `account_id` = OLD.`account_id`; END;
