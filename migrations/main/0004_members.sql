CREATE INDEX `audit_rotations` ON `audit` (`account_id`,`actor_id`,`target_id`) WHERE action = 'key.rotated';--> statement-breakpoint
CREATE INDEX `invitations_by_email` ON `invitations` (lower(email)) WHERE used_by IS NULL;--> statement-breakpoint
UPDATE `members` SET `email_key` = lower(`email`) WHERE `email_key` <> lower(`email`);--> statement-breakpoint
DELETE FROM `invitations` WHERE `used_by` IS NULL AND `kind` = 'invite' AND EXISTS (SELECT 1 FROM `members` WHERE `members`.`account_id` = `invitations`.`account_id` AND `members`.`email_key` = lower(`invitations`.`email`) AND `members`.`removed_at` >= `invitations`.`created_at`);
