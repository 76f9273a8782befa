CREATE TABLE `portal_links` (
	`token_hash` text PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`account_id` text NOT NULL,
	`external_id` text NOT NULL,
	`email` text NOT NULL,
	`name` text NOT NULL,
	`role` text NOT NULL,
	`return_url` text NOT NULL,
	`page` text NOT NULL,
	`is_framed` integer NOT NULL,
	`created_by` text,
	`claimed_at` integer,
	`expires_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `portal_links_by_account` ON `portal_links` (`account_id`,`expires_at`);--> statement-breakpoint
DROP INDEX `members_by_email`;--> statement-breakpoint
ALTER TABLE `members` ADD `external_id` text;--> statement-breakpoint
CREATE UNIQUE INDEX `members_by_external_id` ON `members` (`account_id`,`external_id`) WHERE removed_at IS NULL AND external_id IS NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX `members_by_email` ON `members` (`email_key`,`account_id`) WHERE removed_at IS NULL AND email_key <> '';--> statement-breakpoint
ALTER TABLE `accounts` ADD `suspension_reason` text;--> statement-breakpoint
ALTER TABLE `sessions` ADD `return_url` text;--> statement-breakpoint
ALTER TABLE `sessions` ADD `portal_token_id` text;--> statement-breakpoint
ALTER TABLE `sessions` ADD `is_framed` integer DEFAULT false NOT NULL;--> statement-breakpoint
DROP TRIGGER `members_added`;--> statement-breakpoint
DROP TRIGGER `members_changed`;--> statement-breakpoint
DROP TRIGGER `members_deleted`;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` - coalesce((SELECT sum(`members`.`row_bytes`) FROM `members` WHERE `members`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
ALTER TABLE `members` DROP COLUMN `row_bytes`;--> statement-breakpoint
ALTER TABLE `members` ADD `row_bytes` integer GENERATED ALWAYS AS (265 + octet_length(concat(`email_key`)) + octet_length(concat(`external_id`)) + octet_length(concat(`id`, `account_id`, `name`, `email`, `email_key`, `role`, `external_id`)) + iif(octet_length(concat(`id`, `account_id`, `name`, `email`, `email_key`, `role`, `external_id`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`members`.`row_bytes`) FROM `members` WHERE `members`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `members_added` AFTER INSERT ON `members` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `members_changed` AFTER UPDATE ON `members` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `members_deleted` AFTER DELETE ON `members` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `portal_links` ADD `row_bytes` integer GENERATED ALWAYS AS (400 + octet_length(concat(`token_hash`, `id`, `account_id`, `external_id`, `email`, `name`, `role`, `return_url`, `page`, `created_by`)) + iif(octet_length(concat(`token_hash`, `id`, `account_id`, `external_id`, `email`, `name`, `role`, `return_url`, `page`, `created_by`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`portal_links`.`row_bytes`) FROM `portal_links` WHERE `portal_links`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `portal_links_added` AFTER INSERT ON `portal_links` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `portal_links_changed` AFTER UPDATE ON `portal_links` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `portal_links_deleted` AFTER DELETE ON `portal_links` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
DROP TRIGGER `sessions_added`;--> statement-breakpoint
DROP TRIGGER `sessions_changed`;--> statement-breakpoint
DROP TRIGGER `sessions_deleted`;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` - coalesce((SELECT sum(`sessions`.`row_bytes`) FROM `sessions` JOIN `members` ON `members`.`id` = `sessions`.`member_id` WHERE `members`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
ALTER TABLE `sessions` DROP COLUMN `row_bytes`;--> statement-breakpoint
ALTER TABLE `sessions` ADD `row_bytes` integer GENERATED ALWAYS AS (440 + octet_length(concat(`token_hash`, `id`, `member_id`, `opened_with`, `confirmed_with`, `ip`, `country`, `user_agent`, `return_url`, `portal_token_id`)) + iif(octet_length(concat(`token_hash`, `id`, `member_id`, `opened_with`, `confirmed_with`, `ip`, `country`, `user_agent`, `return_url`, `portal_token_id`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`sessions`.`row_bytes`) FROM `sessions` JOIN `members` ON `members`.`id` = `sessions`.`member_id` WHERE `members`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `sessions_added` AFTER INSERT ON `sessions` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) SELECT `account_id`, NEW.`row_bytes` FROM `members` WHERE `id` = NEW.`member_id` ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `sessions_changed` AFTER UPDATE ON `sessions` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = (SELECT `account_id` FROM `members` WHERE `id` = NEW.`member_id`); END;--> statement-breakpoint
CREATE TRIGGER `sessions_deleted` AFTER DELETE ON `sessions` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = (SELECT `account_id` FROM `members` WHERE `id` = OLD.`member_id`); END;
