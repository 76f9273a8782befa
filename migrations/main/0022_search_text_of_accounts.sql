ALTER TABLE `accounts` ADD `search_text` text DEFAULT '' NOT NULL;--> statement-breakpoint
UPDATE `accounts` SET `search_text` = lower(`name` || char(10) || `email` || char(10) || coalesce(`external_id`, ''));
