CREATE TABLE `imported_secrets` (
	`algorithm` text NOT NULL,
	`digest` text NOT NULL,
	`account_id` text NOT NULL,
	`key_id` text NOT NULL,
	`strip` text NOT NULL,
	`prefix` text NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`algorithm`, `digest`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `imported_secrets_by_account` ON `imported_secrets` (`account_id`);--> statement-breakpoint
CREATE TABLE `key_forms` (
	`id` text PRIMARY KEY NOT NULL,
	`prefix` text NOT NULL,
	`min_length` integer NOT NULL,
	`max_length` integer NOT NULL,
	`alphabet` text NOT NULL,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `service_tokens` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`scopes` text NOT NULL,
	`account_ids` text,
	`token_hash` text NOT NULL,
	`created_by` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer,
	`revoked_at` integer
);
--> statement-breakpoint
CREATE INDEX `service_tokens_by_revocation` ON `service_tokens` (`revoked_at`);--> statement-breakpoint
ALTER TABLE `accounts` ADD `external_id` text;--> statement-breakpoint
ALTER TABLE `accounts` ADD `metadata` text DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE `accounts` ADD `on_unavailable` text DEFAULT 'deny' NOT NULL;--> statement-breakpoint
ALTER TABLE `accounts` ADD `max_live_keys` integer DEFAULT 50 NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_by_external_id` ON `accounts` (`external_id`);--> statement-breakpoint
ALTER TABLE `api_keys` ADD `external_id` text;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `metadata` text DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `imported_prefix` text;--> statement-breakpoint
DROP TRIGGER `api_keys_added`;--> statement-breakpoint
DROP TRIGGER `api_keys_changed`;--> statement-breakpoint
DROP TRIGGER `api_keys_deleted`;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` - coalesce((SELECT sum(`api_keys`.`row_bytes`) FROM `api_keys` WHERE `api_keys`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
ALTER TABLE `api_keys` DROP COLUMN `row_bytes`;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `row_bytes` integer GENERATED ALWAYS AS (600 + octet_length(concat(`id`, `account_id`, `name`, `external_id`, `metadata`, `last4`, `imported_prefix`, `secret_hash`, `previous_secret_hash`, `scopes`, `state`, `other_limits`, `allowed_ips`, `revision`, `created_by_type`, `created_by_id`, `signed_by`, `previous_signed_by`)) + iif(octet_length(concat(`id`, `account_id`, `name`, `external_id`, `metadata`, `last4`, `imported_prefix`, `secret_hash`, `previous_secret_hash`, `scopes`, `state`, `other_limits`, `allowed_ips`, `revision`, `created_by_type`, `created_by_id`, `signed_by`, `previous_signed_by`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`api_keys`.`row_bytes`) FROM `api_keys` WHERE `api_keys`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `api_keys_added` AFTER INSERT ON `api_keys` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `api_keys_changed` AFTER UPDATE ON `api_keys` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `api_keys_deleted` AFTER DELETE ON `api_keys` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `imported_secrets` ADD `row_bytes` integer GENERATED ALWAYS AS (200 + octet_length(concat(`algorithm`, `digest`, `account_id`, `key_id`, `strip`, `prefix`)) + iif(octet_length(concat(`algorithm`, `digest`, `account_id`, `key_id`, `strip`, `prefix`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`imported_secrets`.`row_bytes`) FROM `imported_secrets` WHERE `imported_secrets`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `imported_secrets_added` AFTER INSERT ON `imported_secrets` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `imported_secrets_changed` AFTER UPDATE ON `imported_secrets` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `imported_secrets_deleted` AFTER DELETE ON `imported_secrets` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;
