ALTER TABLE `accounts` ADD `log_writer` text DEFAULT 'ACTIVITY_0/0' NOT NULL;
--> statement-breakpoint
UPDATE `accounts` SET `log_writer` = `activity_store` || '/0';
--> statement-breakpoint
ALTER TABLE `accounts` DROP COLUMN `activity_store`;
--> statement-breakpoint
ALTER TABLE `accounts` RENAME COLUMN `keep_days` TO `retention_days`;
--> statement-breakpoint
ALTER TABLE `erasures` RENAME COLUMN `activity_store` TO `log_writer`;
--> statement-breakpoint
UPDATE `erasures` SET `log_writer` = `log_writer` || '/0';
