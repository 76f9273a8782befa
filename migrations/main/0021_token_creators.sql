ALTER TABLE `service_tokens` ADD `created_by_id` text;--> statement-breakpoint
CREATE INDEX `service_tokens_by_creator` ON `service_tokens` (`created_by_id`);--> statement-breakpoint
UPDATE `service_tokens` SET `created_by_id` = (SELECT `token_id` FROM `operator_audit` WHERE `action` = 'token.made' AND `target_id` = `service_tokens`.`id`);
