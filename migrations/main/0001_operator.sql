CREATE TABLE `erasures` (
	`account_id` text PRIMARY KEY NOT NULL,
	`activity_store` text NOT NULL,
	`operator` text NOT NULL,
	`requested_at` integer NOT NULL,
	`erased` text NOT NULL,
	`finished_at` integer,
	`checked_at` integer
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `operator_audit` (
	`id` text PRIMARY KEY NOT NULL,
	`operator` text NOT NULL,
	`action` text NOT NULL,
	`account_id` text,
	`target_id` text,
	`details` text NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `operator_sessions` (
	`token_hash` text PRIMARY KEY NOT NULL,
	`operator` text NOT NULL,
	`operator_token_hash` text NOT NULL,
	`expires_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
ALTER TABLE `accounts` ADD `suspended_at` integer;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `signed_by` text;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `previous_signed_by` text;