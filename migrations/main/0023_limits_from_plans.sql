ALTER TABLE `api_keys` ADD `limits_from` text DEFAULT 'key' NOT NULL;--> statement-breakpoint
DROP TRIGGER `api_keys_added`;--> statement-breakpoint
DROP TRIGGER `api_keys_changed`;--> statement-breakpoint
DROP TRIGGER `api_keys_deleted`;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` - coalesce((SELECT sum(`api_keys`.`row_bytes`) FROM `api_keys` WHERE `api_keys`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
ALTER TABLE `api_keys` DROP COLUMN `row_bytes`;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `row_bytes` integer GENERATED ALWAYS AS (600 + octet_length(concat(`id`, `account_id`, `name`, `external_id`, `metadata`, `last4`, `imported_prefix`, `secret_hash`, `previous_secret_hash`, `scopes`, `state`, `other_limits`, `limits_from`, `allowed_ips`, `revision`, `created_by_type`, `created_by_id`, `signed_by`, `previous_signed_by`)) + iif(octet_length(concat(`id`, `account_id`, `name`, `external_id`, `metadata`, `last4`, `imported_prefix`, `secret_hash`, `previous_secret_hash`, `scopes`, `state`, `other_limits`, `limits_from`, `allowed_ips`, `revision`, `created_by_type`, `created_by_id`, `signed_by`, `previous_signed_by`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`api_keys`.`row_bytes`) FROM `api_keys` WHERE `api_keys`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `api_keys_added` AFTER INSERT ON `api_keys` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `api_keys_changed` AFTER UPDATE ON `api_keys` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `api_keys_deleted` AFTER DELETE ON `api_keys` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;
