CREATE TABLE `webhook_slots` (
	`host` text NOT NULL,
	`slot` integer NOT NULL,
	`taken_by` text NOT NULL,
	`claim` text NOT NULL,
	`started_at` integer NOT NULL,
	`is_open` integer NOT NULL,
	`is_answered` integer NOT NULL,
	PRIMARY KEY(`host`, `slot`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `webhook_slots_unanswered` ON `webhook_slots` (`taken_by`,`started_at`) WHERE is_answered = 0;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `target` text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `host` text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `answered_host` text;--> statement-breakpoint
UPDATE `webhooks` SET `target` = `url` || '/#' || `number`, `host` = lower(substr(`url`, instr(`url`, '//') + 2, instr(substr(`url`, instr(`url`, '//') + 2) || '/', '/') - 1));--> statement-breakpoint
CREATE UNIQUE INDEX `webhooks_by_target` ON `webhooks` (`account_id`,`target`);--> statement-breakpoint
CREATE INDEX `webhooks_answered` ON `webhooks` (`answered_host`) WHERE answered_host IS NOT NULL;--> statement-breakpoint
DROP TRIGGER `webhooks_added`;--> statement-breakpoint
DROP TRIGGER `webhooks_changed`;--> statement-breakpoint
DROP TRIGGER `webhooks_deleted`;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` - coalesce((SELECT sum(`webhooks`.`row_bytes`) FROM `webhooks` WHERE `webhooks`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
ALTER TABLE `webhooks` DROP COLUMN `row_bytes`;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `row_bytes` integer GENERATED ALWAYS AS (130 + octet_length(concat(`target`)) + octet_length(concat(`account_id`, `id`, `url`, `target`, `host`, `answered_host`, `description`, `event_types`, `state`, `disabled_reason`, `sealed_secret`, `previous_sealed_secret`, `revision`)) + iif(octet_length(concat(`account_id`, `id`, `url`, `target`, `host`, `answered_host`, `description`, `event_types`, `state`, `disabled_reason`, `sealed_secret`, `previous_sealed_secret`, `revision`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`webhooks`.`row_bytes`) FROM `webhooks` WHERE `webhooks`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `webhooks_added` AFTER INSERT ON `webhooks` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `webhooks_changed` AFTER UPDATE ON `webhooks` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `webhooks_deleted` AFTER DELETE ON `webhooks` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `webhook_slots_opened` AFTER UPDATE OF `claim` ON `deliveries` WHEN NEW.`claim` IS NOT NULL BEGIN INSERT INTO `webhook_slots` (`host`, `slot`, `taken_by`, `claim`, `started_at`, `is_open`, `is_answered`) SELECT `host`, coalesce((SELECT `old`.`slot` FROM `webhook_slots` AS `old` WHERE `old`.`host` = `webhooks`.`host` AND `old`.`started_at` <= NEW.`claimed_until` - 60000 - iif(`old`.`is_answered`, iif(`old`.`is_open`, 20000, 1000), 3600000) LIMIT 1), (SELECT coalesce(max(`last`.`slot`), -1) + 1 FROM `webhook_slots` AS `last` WHERE `last`.`host` = `webhooks`.`host`)), NEW.`account_id`, NEW.`claim`, NEW.`claimed_until` - 60000, 1, EXISTS (SELECT 1 FROM `webhooks` AS `answered` WHERE `answered`.`answered_host` = `webhooks`.`host`) FROM `webhooks` WHERE `webhooks`.`account_id` = NEW.`account_id` AND `webhooks`.`id` = NEW.`webhook_id` ON CONFLICT (`host`, `slot`) DO UPDATE SET `taken_by` = excluded.`taken_by`, `claim` = excluded.`claim`, `started_at` = excluded.`started_at`, `is_open` = 1, `is_answered` = excluded.`is_answered`; END;--> statement-breakpoint
CREATE TRIGGER `webhook_slots_closed` AFTER UPDATE OF `claim` ON `deliveries` WHEN OLD.`claim` IS NOT NULL AND NEW.`claim` IS NULL BEGIN UPDATE `webhooks` SET `answered_host` = `host` WHERE NEW.`status` = 'delivered' AND `account_id` = OLD.`account_id` AND `id` = OLD.`webhook_id` AND `answered_host` IS NOT `host` AND EXISTS (SELECT 1 FROM `webhook_slots` WHERE `webhook_slots`.`host` = `webhooks`.`host` AND `webhook_slots`.`claim` = OLD.`claim`); UPDATE `webhook_slots` SET `is_open` = 0 WHERE `claim` = OLD.`claim` AND `host` = (SELECT `host` FROM `webhooks` WHERE `account_id` = OLD.`account_id` AND `id` = OLD.`webhook_id`); END;--> statement-breakpoint
CREATE TRIGGER `webhook_host_answered` AFTER UPDATE OF `answered_host` ON `webhooks` WHEN NEW.`answered_host` IS NOT NULL AND NEW.`answered_host` IS NOT OLD.`answered_host` BEGIN UPDATE `deliveries` SET `next_attempt_at` = `created_at` WHERE `account_id` = NEW.`account_id` AND `webhook_id` = NEW.`id` AND `status` = 'pending' AND `attempts_made` = 0 AND `claim` IS NULL AND `redelivery_id` IS NULL AND `next_attempt_at` > `created_at`; END;
