DELETE FROM `sessions`;--> statement-breakpoint
ALTER TABLE `sessions` ADD `opened_with` text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE `sessions` ADD `confirmed_with` text DEFAULT '' NOT NULL;--> statement-breakpoint
DROP TRIGGER `sessions_added`;--> statement-breakpoint
DROP TRIGGER `sessions_changed`;--> statement-breakpoint
DROP TRIGGER `sessions_deleted`;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` - coalesce((SELECT sum(`sessions`.`row_bytes`) FROM `sessions` JOIN `members` ON `members`.`id` = `sessions`.`member_id` WHERE `members`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
ALTER TABLE `sessions` DROP COLUMN `row_bytes`;--> statement-breakpoint
ALTER TABLE `sessions` ADD `row_bytes` integer GENERATED ALWAYS AS (440 + octet_length(concat(`token_hash`, `id`, `member_id`, `opened_with`, `confirmed_with`, `ip`, `country`, `user_agent`)) + iif(octet_length(concat(`token_hash`, `id`, `member_id`, `opened_with`, `confirmed_with`, `ip`, `country`, `user_agent`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`sessions`.`row_bytes`) FROM `sessions` JOIN `members` ON `members`.`id` = `sessions`.`member_id` WHERE `members`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `sessions_added` AFTER INSERT ON `sessions` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) SELECT `account_id`, NEW.`row_bytes` FROM `members` WHERE `id` = NEW.`member_id` ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `sessions_changed` AFTER UPDATE ON `sessions` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = (SELECT `account_id` FROM `members` WHERE `id` = NEW.`member_id`); END;--> statement-breakpoint
CREATE TRIGGER `sessions_deleted` AFTER DELETE ON `sessions` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = (SELECT `account_id` FROM `members` WHERE `id` = OLD.`member_id`); END;--> statement-breakpoint
UPDATE `accounts` SET `on_unavailable` = 'deny' WHERE `on_unavailable` = 'allow';
