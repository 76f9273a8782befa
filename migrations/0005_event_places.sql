ALTER TABLE `events` ADD `place` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
UPDATE `events` SET `place` = `numbered`.`place` FROM (
	SELECT `account_id`, `id`, `created_at` * 1000 - 1 + row_number() OVER (PARTITION BY `account_id`, `created_at` ORDER BY `id`) AS `place` FROM `events`
) AS `numbered`
WHERE `events`.`account_id` = `numbered`.`account_id` AND `events`.`id` = `numbered`.`id`;--> statement-breakpoint
CREATE INDEX `events_by_place` ON `events` (`account_id`,`place`);
