ALTER TABLE `events` ADD `place` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
UPDATE `events` SET `place` = `created_at` * 1000 + (
	SELECT count(*) FROM `events` AS `others`
	WHERE `others`.`account_id` = `events`.`account_id` AND `others`.`created_at` = `events`.`created_at` AND `others`.`id` < `events`.`id`
);--> statement-breakpoint
CREATE INDEX `events_by_place` ON `events` (`account_id`,`place`);
