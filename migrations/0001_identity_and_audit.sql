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
CREATE TABLE `spent_challenges` (
	`challenge_hash` text PRIMARY KEY NOT NULL,
	`expires_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
ALTER TABLE `accounts` ADD `sample_until` integer;--> statement-breakpoint
ALTER TABLE `activity` ADD `secret` text;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `created_by_type` text;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `created_by_id` text;--> statement-breakpoint
ALTER TABLE `events` ADD `request_id` text;