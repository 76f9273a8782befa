CREATE TABLE `plans` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`account_limits` text NOT NULL,
	`key_limits` text NOT NULL,
	`default_scopes` text,
	`retention_days` integer,
	`version` integer NOT NULL,
	`changed_by` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `plans_name_unique` ON `plans` (`name`);--> statement-breakpoint
ALTER TABLE `accounts` ADD `plan_id` text REFERENCES plans(id);--> statement-breakpoint
ALTER TABLE `accounts` ADD `plan_version` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `accounts` ADD `own_terms` text DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE `accounts` ADD `shared_limits` text DEFAULT '[]' NOT NULL;--> statement-breakpoint
ALTER TABLE `accounts` ADD `limits_in_force` text DEFAULT '[]' NOT NULL;--> statement-breakpoint
ALTER TABLE `accounts` ADD `key_limits` text DEFAULT '[]' NOT NULL;--> statement-breakpoint
ALTER TABLE `accounts` ADD `default_scopes` text;--> statement-breakpoint
ALTER TABLE `accounts` ADD `limits_version` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `accounts` ADD `pushed_limits_version` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `accounts` ADD `limits_revision` text DEFAULT '' NOT NULL;--> statement-breakpoint
CREATE INDEX `accounts_by_plan` ON `accounts` (`plan_id`,`plan_version`,`id`);--> statement-breakpoint
CREATE INDEX `accounts_unpushed` ON `accounts` (`id`) WHERE pushed_limits_version < limits_version;--> statement-breakpoint
UPDATE `accounts` SET `own_terms` = json_patch(iif(`limit_ceiling` <> 5000, json_object('limitCeiling', `limit_ceiling`), '{}'), iif(`retention_days` IS NULL, '{}', json_object('retentionDays', `retention_days`)));
