DROP INDEX `invitations_by_account`;--> statement-breakpoint
CREATE INDEX `invitations_by_account` ON `invitations` (`account_id`,`expires_at`);--> statement-breakpoint
DROP INDEX `members_by_account`;--> statement-breakpoint
CREATE INDEX `former_members_by_email` ON `members` (`email_key`,`account_id`) WHERE removed_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `members_by_account` ON `members` (`account_id`,`removed_at`);--> statement-breakpoint
DROP INDEX `redeliveries_unfinished`;--> statement-breakpoint
CREATE INDEX `redeliveries_unfinished` ON `redeliveries` (`account_id`,`next_at`) WHERE cursor IS NOT NULL;--> statement-breakpoint
CREATE INDEX `api_keys_by_state` ON `api_keys` (`account_id`,`state`,`created_at`,`id`,`expires_at`);--> statement-breakpoint
CREATE INDEX `api_keys_live` ON `api_keys` (`account_id`,`expires_at`) WHERE state <> 'revoked';--> statement-breakpoint
CREATE INDEX `audit_sign_ins` ON `audit` (`account_id`,`actor_id`,`id`) WHERE action IN ('passkey.added', 'passkey.removed', 'recovery_codes.made', 'session.started', 'session.ended');