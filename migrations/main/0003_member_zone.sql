ALTER TABLE `members` ADD `zone` text;--> statement-breakpoint
DROP TRIGGER `members_added`;--> statement-breakpoint
DROP TRIGGER `members_changed`;--> statement-breakpoint
DROP TRIGGER `members_deleted`;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` - coalesce((SELECT sum(`members`.`row_bytes`) FROM `members` WHERE `members`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
ALTER TABLE `members` DROP COLUMN `row_bytes`;--> statement-breakpoint
ALTER TABLE `members` ADD `row_bytes` integer GENERATED ALWAYS AS (265 + octet_length(concat(`email_key`)) + octet_length(concat(`external_id`)) + octet_length(concat(`id`, `account_id`, `name`, `email`, `email_key`, `role`, `external_id`, `zone`)) + iif(octet_length(concat(`id`, `account_id`, `name`, `email`, `email_key`, `role`, `external_id`, `zone`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`members`.`row_bytes`) FROM `members` WHERE `members`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `members_added` AFTER INSERT ON `members` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `members_changed` AFTER UPDATE ON `members` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `members_deleted` AFTER DELETE ON `members` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;
