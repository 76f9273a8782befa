CREATE TABLE `accounts` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`email` text NOT NULL,
	`limit_ceiling` integer DEFAULT 5000 NOT NULL,
	`addresses_cleared_to` text DEFAULT '' NOT NULL,
	`created_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `activity` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
	`key_id` text NOT NULL,
	`method` text NOT NULL,
	`path` text NOT NULL,
	`route` text NOT NULL,
	`status` integer NOT NULL,
	`duration_ms` integer NOT NULL,
	`ip` text,
	`country` text,
	`user_agent` text,
	`error_code` text,
	`admitted` integer NOT NULL,
	`counted` integer NOT NULL,
	`count` integer NOT NULL,
	PRIMARY KEY(`account_id`, `id`)
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
	`created_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `deliveries_by_webhook` ON `deliveries` (`account_id`,`webhook_id`,`id`);--> statement-breakpoint
CREATE INDEX `deliveries_due` ON `deliveries` (`next_attempt_at`) WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX `deliveries_by_redelivery` ON `deliveries` (`redelivery_id`) WHERE redelivery_id IS NOT NULL;--> statement-breakpoint
CREATE TABLE `events` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
	`type` text NOT NULL,
	`data` text NOT NULL,
	`created_at` integer NOT NULL,
	`sequence` integer NOT NULL,
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
CREATE TABLE `key_uses` (
	`account_id` text NOT NULL,
	`key_id` text NOT NULL,
	`entry_id` text NOT NULL,
	`path` text NOT NULL,
	PRIMARY KEY(`account_id`, `key_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `redeliveries` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
	`webhook_id` text NOT NULL,
	`count` integer NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `stale_hours` (
	`account_id` text NOT NULL,
	`hour` integer NOT NULL,
	PRIMARY KEY(`account_id`, `hour`)
) WITHOUT ROWID;
--> statement-breakpoint
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
CREATE TABLE `usage_day_totals` (
	`account_id` text NOT NULL,
	`start` integer NOT NULL,
	`key_id` text NOT NULL,
	`by_status` text NOT NULL,
	`histogram` text NOT NULL,
	PRIMARY KEY(`account_id`, `key_id`, `start`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `usage_days` (
	`account_id` text NOT NULL,
	`start` integer NOT NULL,
	`key_id` text NOT NULL,
	`route` text NOT NULL,
	`status` integer NOT NULL,
	`requests` integer NOT NULL,
	`admitted` integer NOT NULL,
	`counted` integer NOT NULL,
	`duration_ms` integer NOT NULL,
	PRIMARY KEY(`account_id`, `start`, `key_id`, `route`, `status`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `usage_hour_totals` (
	`account_id` text NOT NULL,
	`start` integer NOT NULL,
	`key_id` text NOT NULL,
	`by_status` text NOT NULL,
	`histogram` text NOT NULL,
	PRIMARY KEY(`account_id`, `key_id`, `start`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `usage_hours` (
	`account_id` text NOT NULL,
	`start` integer NOT NULL,
	`key_id` text NOT NULL,
	`route` text NOT NULL,
	`status` integer NOT NULL,
	`requests` integer NOT NULL,
	`admitted` integer NOT NULL,
	`counted` integer NOT NULL,
	`duration_ms` integer NOT NULL,
	PRIMARY KEY(`account_id`, `start`, `key_id`, `route`, `status`)
) WITHOUT ROWID;
--> statement-breakpoint
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
) WITHOUT ROWID;
