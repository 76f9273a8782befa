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
	`created_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `deliveries_by_webhook` ON `deliveries` (`account_id`,`webhook_id`,`id`);--> statement-breakpoint
CREATE INDEX `deliveries_due` ON `deliveries` (`next_attempt_at`) WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX `deliveries_by_redelivery` ON `deliveries` (`redelivery_id`) WHERE redelivery_id IS NOT NULL;--> statement-breakpoint
CREATE TABLE `redeliveries` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
	`webhook_id` text NOT NULL,
	`count` integer NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `webhooks` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
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
--> statement-breakpoint
ALTER TABLE `api_keys` ADD `expiry_told` integer;--> statement-breakpoint
CREATE INDEX `api_keys_untold` ON `api_keys` (`expires_at`) WHERE expiry_told IS NOT expires_at AND state <> 'revoked';