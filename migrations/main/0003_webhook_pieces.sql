CREATE TABLE `webhook_backlogs` (
	`account_id` text NOT NULL,
	`webhook_id` text NOT NULL,
	`pending` integer DEFAULT 0 NOT NULL,
	`held` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`account_id`, `webhook_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `webhook_settlements` (
	`account_id` text NOT NULL,
	`webhook_id` text NOT NULL,
	`status` text NOT NULL,
	PRIMARY KEY(`account_id`, `webhook_id`)
) WITHOUT ROWID;
--> statement-breakpoint
DROP INDEX `deliveries_by_redelivery`;--> statement-breakpoint
ALTER TABLE `deliveries` ADD `superseded_by` text;--> statement-breakpoint
CREATE INDEX `deliveries_unsent` ON `deliveries` (`webhook_id`,`status`,`id`) WHERE status <> 'delivered';--> statement-breakpoint
CREATE INDEX `deliveries_unattempted` ON `deliveries` (`redelivery_id`) WHERE redelivery_id IS NOT NULL AND attempts_made = 0 AND status = 'pending';--> statement-breakpoint
ALTER TABLE `redeliveries` ADD `filter` text;--> statement-breakpoint
ALTER TABLE `redeliveries` ADD `event_types` text DEFAULT '[]' NOT NULL;--> statement-breakpoint
ALTER TABLE `redeliveries` ADD `cursor` text;--> statement-breakpoint
ALTER TABLE `redeliveries` ADD `made` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `redeliveries` ADD `next_at` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX `redeliveries_by_webhook` ON `redeliveries` (`webhook_id`,`next_at`);--> statement-breakpoint
CREATE INDEX `redeliveries_unfinished` ON `redeliveries` (`id`) WHERE cursor IS NOT NULL;--> statement-breakpoint
UPDATE `redeliveries` SET `made` = `count`;
--> statement-breakpoint
UPDATE `deliveries` SET `superseded_by` = `later`.`id` FROM (SELECT `redelivery_of`, max(`id`) AS `id` FROM `deliveries` WHERE `redelivery_of` IS NOT NULL GROUP BY `redelivery_of`) AS `later` WHERE `deliveries`.`id` = `later`.`redelivery_of`;
--> statement-breakpoint
INSERT INTO `webhook_backlogs` (`account_id`, `webhook_id`, `pending`, `held`) SELECT `account_id`, `webhook_id`, sum(`status` = 'pending'), sum(`status` = 'held') FROM `deliveries` WHERE `status` IN ('pending', 'held') GROUP BY `account_id`, `webhook_id`;
--> statement-breakpoint
CREATE TRIGGER `deliveries_begin_to_wait` AFTER INSERT ON `deliveries` WHEN NEW.`status` IN ('pending', 'held') BEGIN INSERT OR IGNORE INTO `webhook_backlogs` (`account_id`, `webhook_id`) VALUES (NEW.`account_id`, NEW.`webhook_id`); UPDATE `webhook_backlogs` SET `pending` = `pending` + (NEW.`status` = 'pending'), `held` = `held` + (NEW.`status` = 'held') WHERE `account_id` = NEW.`account_id` AND `webhook_id` = NEW.`webhook_id`; END;
--> statement-breakpoint
CREATE TRIGGER `deliveries_change_status` AFTER UPDATE OF `status` ON `deliveries` WHEN NEW.`status` <> OLD.`status` BEGIN INSERT OR IGNORE INTO `webhook_backlogs` (`account_id`, `webhook_id`) VALUES (NEW.`account_id`, NEW.`webhook_id`); UPDATE `webhook_backlogs` SET `pending` = `pending` + (NEW.`status` = 'pending') - (OLD.`status` = 'pending'), `held` = `held` + (NEW.`status` = 'held') - (OLD.`status` = 'held') WHERE `account_id` = NEW.`account_id` AND `webhook_id` = NEW.`webhook_id`; END;
--> statement-breakpoint
CREATE TRIGGER `deliveries_stop_waiting` AFTER DELETE ON `deliveries` WHEN OLD.`status` IN ('pending', 'held') BEGIN UPDATE `webhook_backlogs` SET `pending` = `pending` - (OLD.`status` = 'pending'), `held` = `held` - (OLD.`status` = 'held') WHERE `account_id` = OLD.`account_id` AND `webhook_id` = OLD.`webhook_id`; END;
