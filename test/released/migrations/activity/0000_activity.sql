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
	`secret` text,
	PRIMARY KEY(`account_id`, `id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `key_uses` (
	`account_id` text NOT NULL,
	`key_id` text NOT NULL,
	`entry_id` text NOT NULL,
	`path` text NOT NULL,
	PRIMARY KEY(`account_id`, `key_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `log_starts` (
	`account_id` text PRIMARY KEY NOT NULL,
	`starts_at` integer NOT NULL,
	`first_id` text NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `stale_slices` (
	`account_id` text NOT NULL,
	`start` integer NOT NULL,
	`writer` integer NOT NULL,
	`since` integer NOT NULL,
	PRIMARY KEY(`account_id`, `start`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `stale_slices_by_writer` ON `stale_slices` (`writer`,`start`);--> statement-breakpoint
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
CREATE TABLE `usage_slices` (
	`account_id` text NOT NULL,
	`start` integer NOT NULL,
	`key_id` text NOT NULL,
	`route` text NOT NULL,
	`status` integer NOT NULL,
	`requests` integer NOT NULL,
	`admitted` integer NOT NULL,
	`counted` integer NOT NULL,
	`duration_ms` integer NOT NULL,
	`durations` text NOT NULL,
	`last_id` text,
	`last_path` text,
	PRIMARY KEY(`account_id`, `start`, `key_id`, `route`, `status`)
) WITHOUT ROWID;
