CREATE TABLE `accounts` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`email` text NOT NULL,
	`external_id` text,
	`search_text` text DEFAULT '' NOT NULL,
	`metadata` text DEFAULT '{}' NOT NULL,
	`on_unavailable` text DEFAULT 'deny' NOT NULL,
	`limit_ceiling` integer DEFAULT 5000 NOT NULL,
	`log_writer` text DEFAULT 'ACTIVITY_0/0' NOT NULL,
	`max_live_keys` integer DEFAULT 50 NOT NULL,
	`retention_days` integer,
	`storage_quota_bytes` integer,
	`plan_id` text,
	`plan_version` integer DEFAULT 0 NOT NULL,
	`own_terms` text DEFAULT '{}' NOT NULL,
	`shared_limits` text DEFAULT '[]' NOT NULL,
	`limits_in_force` text DEFAULT '[]' NOT NULL,
	`key_limits` text DEFAULT '[]' NOT NULL,
	`default_scopes` text,
	`limits_version` integer DEFAULT 0 NOT NULL,
	`pushed_limits_version` integer DEFAULT 0 NOT NULL,
	`limits_revision` text DEFAULT '' NOT NULL,
	`sample_until` integer,
	`created_at` integer NOT NULL,
	`suspended_at` integer,
	FOREIGN KEY (`plan_id`) REFERENCES `plans`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_by_external_id` ON `accounts` (`external_id`);--> statement-breakpoint
CREATE INDEX `accounts_by_plan` ON `accounts` (`plan_id`,`plan_version`,`id`);--> statement-breakpoint
CREATE INDEX `accounts_unpushed` ON `accounts` (`id`) WHERE pushed_limits_version < limits_version;--> statement-breakpoint
CREATE TABLE `plans` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`account_limits` text NOT NULL,
	`key_limits` text NOT NULL,
	`default_scopes` text,
	`retention_days` integer,
	`version` integer NOT NULL,
	`changed_by` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `plans_name_unique` ON `plans` (`name`);--> statement-breakpoint
CREATE TABLE `audit` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
	`actor_type` text NOT NULL,
	`actor_id` text,
	`action` text NOT NULL,
	`target_type` text NOT NULL,
	`target_id` text NOT NULL,
	`target_name` text,
	`ip` text,
	`country` text,
	`changes` text NOT NULL,
	PRIMARY KEY(`account_id`, `id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `audit_rotations` ON `audit` (`account_id`,`actor_id`,`target_id`) WHERE action = 'key.rotated';--> statement-breakpoint
CREATE INDEX `audit_sign_ins` ON `audit` (`account_id`,`actor_id`,`id`) WHERE action IN ('passkey.added', 'passkey.removed', 'recovery_codes.made', 'session.started', 'session.ended');--> statement-breakpoint
CREATE INDEX `audit_webhooks` ON `audit` (`account_id`,`actor_id`,`action`,`target_id`) WHERE action IN ('webhook.created', 'webhook.updated', 'webhook.secret_rotated', 'webhook.enabled');--> statement-breakpoint
CREATE TABLE `database_sizes` (
	`binding` text PRIMARY KEY NOT NULL,
	`bytes` integer NOT NULL,
	`is_full` integer NOT NULL,
	`measured_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `jobs` (
	`name` text PRIMARY KEY NOT NULL,
	`description` text DEFAULT '' NOT NULL,
	`cursor` text NOT NULL,
	`ran_at` integer NOT NULL,
	`took_ms` integer NOT NULL,
	`done` integer NOT NULL,
	`has_more` integer NOT NULL,
	`error` text
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `events` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
	`type` text NOT NULL,
	`data` text NOT NULL,
	`previous` text,
	`created_at` integer NOT NULL,
	`sequence` integer NOT NULL,
	`request_id` text,
	PRIMARY KEY(`account_id`, `id`)
);
--> statement-breakpoint
CREATE INDEX `events_by_sequence` ON `events` (`account_id`,`sequence`);--> statement-breakpoint
CREATE TABLE `idempotency_keys` (
	`account_id` text NOT NULL,
	`operation` text NOT NULL,
	`key_hash` text NOT NULL,
	`fingerprint` text NOT NULL,
	`status` integer NOT NULL,
	`headers` text NOT NULL,
	`body` text NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `operation`, `key_hash`)
);
--> statement-breakpoint
CREATE TABLE `invitations` (
	`token_hash` text PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`account_id` text NOT NULL,
	`kind` text NOT NULL,
	`role` text NOT NULL,
	`email` text NOT NULL,
	`invited_by` text,
	`used_by` text,
	`expires_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `invitations_by_account` ON `invitations` (`account_id`,`expires_at`);--> statement-breakpoint
CREATE INDEX `invitations_by_email` ON `invitations` (lower(email)) WHERE used_by IS NULL;--> statement-breakpoint
CREATE TABLE `members` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`name` text NOT NULL,
	`email` text NOT NULL,
	`email_key` text NOT NULL,
	`role` text NOT NULL,
	`removed_at` integer,
	`last_seen_at` integer,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `members_by_account` ON `members` (`account_id`,`removed_at`);--> statement-breakpoint
CREATE UNIQUE INDEX `members_by_email` ON `members` (`email_key`,`account_id`) WHERE removed_at IS NULL;--> statement-breakpoint
CREATE INDEX `former_members_by_email` ON `members` (`email_key`,`account_id`) WHERE removed_at IS NOT NULL;--> statement-breakpoint
CREATE TABLE `passkeys` (
	`id` text PRIMARY KEY NOT NULL,
	`member_id` text NOT NULL,
	`name` text NOT NULL,
	`public_key` text NOT NULL,
	`counter` integer NOT NULL,
	`transports` text NOT NULL,
	`last_used_at` integer,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`member_id`) REFERENCES `members`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `passkeys_by_member` ON `passkeys` (`member_id`);--> statement-breakpoint
CREATE TABLE `recovery_codes` (
	`code_hash` text PRIMARY KEY NOT NULL,
	`member_id` text NOT NULL,
	`used_at` integer,
	FOREIGN KEY (`member_id`) REFERENCES `members`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `recovery_codes_by_member` ON `recovery_codes` (`member_id`);--> statement-breakpoint
CREATE TABLE `sessions` (
	`token_hash` text PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`member_id` text NOT NULL,
	`opened_with` text DEFAULT '' NOT NULL,
	`verified_at` integer NOT NULL,
	`confirmed_with` text DEFAULT '' NOT NULL,
	`last_seen_at` integer NOT NULL,
	`ip` text,
	`country` text,
	`user_agent` text,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`member_id`) REFERENCES `members`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `sessions_by_member` ON `sessions` (`member_id`,`last_seen_at`);--> statement-breakpoint
CREATE UNIQUE INDEX `sessions_by_id` ON `sessions` (`id`);--> statement-breakpoint
CREATE INDEX `sessions_by_creation` ON `sessions` (`created_at`);--> statement-breakpoint
CREATE TABLE `spent_challenges` (
	`challenge_hash` text PRIMARY KEY NOT NULL,
	`expires_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `spent_challenges_by_expiry` ON `spent_challenges` (`expires_at`);--> statement-breakpoint
CREATE TABLE `api_keys` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`name` text NOT NULL,
	`external_id` text,
	`metadata` text DEFAULT '{}' NOT NULL,
	`last4` text NOT NULL,
	`imported_prefix` text,
	`secret_hash` text NOT NULL,
	`previous_secret_hash` text,
	`overlap_ends_at` integer,
	`scopes` text NOT NULL,
	`state` text NOT NULL,
	`hourly_limit` integer NOT NULL,
	`other_limits` text DEFAULT '[]' NOT NULL,
	`limits_from` text DEFAULT 'key' NOT NULL,
	`allowed_ips` text NOT NULL,
	`expires_at` integer,
	`notified_expiry` integer,
	`version` integer NOT NULL,
	`pushed_version` integer NOT NULL,
	`revision` text NOT NULL,
	`created_by_type` text,
	`created_by_id` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`signed_by` text,
	`previous_signed_by` text,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `api_keys_by_account` ON `api_keys` (`account_id`,`created_at`,`id`);--> statement-breakpoint
CREATE INDEX `api_keys_by_creator` ON `api_keys` (`account_id`,`created_by_id`);--> statement-breakpoint
CREATE INDEX `api_keys_by_state` ON `api_keys` (`account_id`,`state`,`created_at`,`id`,`expires_at`);--> statement-breakpoint
CREATE INDEX `api_keys_live` ON `api_keys` (`account_id`,`expires_at`) WHERE state <> 'revoked';--> statement-breakpoint
CREATE INDEX `api_keys_unpushed` ON `api_keys` (`id`) WHERE pushed_version < version;--> statement-breakpoint
CREATE INDEX `api_keys_unnotified` ON `api_keys` (`expires_at`) WHERE notified_expiry IS NOT expires_at AND state <> 'revoked';--> statement-breakpoint
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
CREATE TABLE `alerting` (
	`only` integer PRIMARY KEY NOT NULL,
	`state` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `erasures` (
	`account_id` text PRIMARY KEY NOT NULL,
	`log_writer` text NOT NULL,
	`operator` text NOT NULL,
	`requested_at` integer NOT NULL,
	`erased` text NOT NULL,
	`finished_at` integer,
	`checked_at` integer
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `operator_audit` (
	`id` text PRIMARY KEY NOT NULL,
	`operator` text NOT NULL,
	`token_id` text,
	`action` text NOT NULL,
	`account_id` text,
	`target_id` text,
	`details` text NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `operator_audit_by_account` ON `operator_audit` (`account_id`,`id`);--> statement-breakpoint
CREATE TABLE `operator_sessions` (
	`token_hash` text PRIMARY KEY NOT NULL,
	`operator` text NOT NULL,
	`operator_token_hash` text NOT NULL,
	`expires_at` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `sign_in_attempts` (
	`slot` integer PRIMARY KEY NOT NULL,
	`source` text NOT NULL,
	`minute` integer NOT NULL,
	`attempts` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `sign_in_failures` (
	`credential` text PRIMARY KEY NOT NULL,
	`failures` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `tasks` (
	`id` text NOT NULL,
	`account_id` text NOT NULL,
	`title` text NOT NULL,
	`description` text NOT NULL,
	`search_text` text NOT NULL,
	`status` text NOT NULL,
	`priority` text NOT NULL,
	`assignee_id` text,
	`labels` text NOT NULL,
	`due_at` integer,
	`completed_at` integer,
	`revision` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `id`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`account_id`,`assignee_id`) REFERENCES `users`(`account_id`,`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `tasks_by_assignee` ON `tasks` (`account_id`,`assignee_id`,`status`,`completed_at`);--> statement-breakpoint
CREATE INDEX `tasks_by_update` ON `tasks` (`account_id`,`updated_at`,`id`);--> statement-breakpoint
CREATE INDEX `tasks_by_due` ON `tasks` (`account_id`,`due_at`,`id`);--> statement-breakpoint
CREATE INDEX `tasks_for_analytics` ON `tasks` (`account_id`,`status`,`priority`,`assignee_id`,`created_at`,`completed_at`,`due_at`);--> statement-breakpoint
CREATE TABLE `users` (
	`id` text NOT NULL,
	`account_id` text NOT NULL,
	`name` text NOT NULL,
	`email` text NOT NULL,
	`email_key` text NOT NULL,
	`search_text` text NOT NULL,
	`role` text NOT NULL,
	`status` text NOT NULL,
	`deletion_requested_at` integer,
	`revision` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `id`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `users_by_email` ON `users` (`account_id`,`email_key`);--> statement-breakpoint
CREATE INDEX `users_to_delete` ON `users` (`account_id`,`deletion_requested_at`) WHERE deletion_requested_at IS NOT NULL;--> statement-breakpoint
CREATE TABLE `service_tokens` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`scopes` text NOT NULL,
	`account_ids` text,
	`token_hash` text NOT NULL,
	`created_by` text NOT NULL,
	`created_by_id` text,
	`created_at` integer NOT NULL,
	`expires_at` integer,
	`revoked_at` integer
);
--> statement-breakpoint
CREATE INDEX `service_tokens_by_revocation` ON `service_tokens` (`revoked_at`);--> statement-breakpoint
CREATE INDEX `service_tokens_by_creator` ON `service_tokens` (`created_by_id`);--> statement-breakpoint
CREATE TABLE `account_storage` (
	`account_id` text PRIMARY KEY NOT NULL,
	`bytes` integer DEFAULT 0 NOT NULL,
	`dropped_events` integer DEFAULT 0 NOT NULL,
	`users` integer DEFAULT 0 NOT NULL,
	`tasks` integer DEFAULT 0 NOT NULL,
	`events` integer DEFAULT 0 NOT NULL,
	`idempotency_keys` integer DEFAULT 0 NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `attempts` (
	`delivery_id` text NOT NULL,
	`id` text NOT NULL,
	`at` integer NOT NULL,
	`status` integer,
	`duration_ms` integer NOT NULL,
	`error` text,
	`advice` text,
	`response_body` text NOT NULL,
	`body_is_cut` integer DEFAULT false NOT NULL,
	`response_headers` text NOT NULL,
	PRIMARY KEY(`delivery_id`, `id`)
);
--> statement-breakpoint
CREATE TABLE `deliveries` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`webhook_id` text NOT NULL,
	`event_id` text NOT NULL,
	`event_type` text NOT NULL,
	`redelivery_of` text,
	`redelivery_id` text,
	`superseded_by` text,
	`status` text NOT NULL,
	`attempts_made` integer NOT NULL,
	`next_attempt_at` integer,
	`claim` text,
	`claimed_until` integer NOT NULL,
	`reserved_until` integer DEFAULT 0 NOT NULL,
	`created_at` integer NOT NULL,
	`held_at` integer
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `deliveries_by_webhook` ON `deliveries` (`account_id`,`webhook_id`,`id`);--> statement-breakpoint
CREATE INDEX `deliveries_waiting` ON `deliveries` (`webhook_id`,`next_attempt_at`) WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX `deliveries_claimed` ON `deliveries` (`account_id`,`webhook_id`) WHERE claim IS NOT NULL;--> statement-breakpoint
CREATE INDEX `deliveries_unsent` ON `deliveries` (`webhook_id`,`status`,`id`) WHERE status <> 'delivered';--> statement-breakpoint
CREATE INDEX `deliveries_repeating` ON `deliveries` (`redelivery_of`) WHERE redelivery_of IS NOT NULL;--> statement-breakpoint
CREATE INDEX `deliveries_unattempted` ON `deliveries` (`redelivery_id`) WHERE redelivery_id IS NOT NULL AND attempts_made = 0 AND status = 'pending';--> statement-breakpoint
CREATE TABLE `redeliveries` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
	`webhook_id` text NOT NULL,
	`count` integer NOT NULL,
	`filter` text,
	`event_types` text DEFAULT '[]' NOT NULL,
	`cursor` text,
	`made` integer DEFAULT 0 NOT NULL,
	`next_at` integer DEFAULT 0 NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `redeliveries_by_webhook` ON `redeliveries` (`webhook_id`,`next_at`);--> statement-breakpoint
CREATE INDEX `redeliveries_unfinished` ON `redeliveries` (`account_id`,`next_at`) WHERE cursor IS NOT NULL;--> statement-breakpoint
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
CREATE TABLE `webhooks` (
	`account_id` text NOT NULL,
	`id` text NOT NULL,
	`number` integer NOT NULL,
	`url` text NOT NULL,
	`target` text DEFAULT '' NOT NULL,
	`host` text DEFAULT '' NOT NULL,
	`answered_host` text,
	`description` text NOT NULL,
	`event_types` text NOT NULL,
	`state` text NOT NULL,
	`disabled_reason` text,
	`encrypted_secret` text NOT NULL,
	`previous_encrypted_secret` text,
	`overlap_ends_at` integer,
	`failing_since` integer,
	`revision` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `webhooks_by_target` ON `webhooks` (`account_id`,`target`);--> statement-breakpoint
CREATE INDEX `webhooks_answered` ON `webhooks` (`answered_host`) WHERE answered_host IS NOT NULL;--> statement-breakpoint
ALTER TABLE `users` ADD `row_bytes` integer GENERATED ALWAYS AS (180 + octet_length(concat(`email_key`)) + octet_length(concat(`id`, `account_id`, `name`, `email`, `email_key`, `search_text`, `role`, `status`, `revision`)) + iif(octet_length(concat(`id`, `account_id`, `name`, `email`, `email_key`, `search_text`, `role`, `status`, `revision`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`users`.`row_bytes`) FROM `users` WHERE `users`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `users_added` AFTER INSERT ON `users` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`, `users`) VALUES (NEW.`account_id`, NEW.`row_bytes`, 1) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`, `users` = `users` + 1; END;--> statement-breakpoint
CREATE TRIGGER `users_changed` AFTER UPDATE ON `users` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `users_deleted` AFTER DELETE ON `users` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes`, `users` = `users` - 1 WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `tasks` ADD `row_bytes` integer GENERATED ALWAYS AS (530 + octet_length(concat(`id`, `account_id`, `title`, `description`, `search_text`, `status`, `priority`, `assignee_id`, `labels`, `revision`)) + iif(octet_length(concat(`id`, `account_id`, `title`, `description`, `search_text`, `status`, `priority`, `assignee_id`, `labels`, `revision`)) > 1960, 2048, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`tasks`.`row_bytes`) FROM `tasks` WHERE `tasks`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `tasks_added` AFTER INSERT ON `tasks` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`, `tasks`) VALUES (NEW.`account_id`, NEW.`row_bytes`, 1) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`, `tasks` = `tasks` + 1; END;--> statement-breakpoint
CREATE TRIGGER `tasks_changed` AFTER UPDATE ON `tasks` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `tasks_deleted` AFTER DELETE ON `tasks` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes`, `tasks` = `tasks` - 1 WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `row_bytes` integer GENERATED ALWAYS AS (600 + octet_length(concat(`id`, `account_id`, `name`, `external_id`, `metadata`, `last4`, `imported_prefix`, `secret_hash`, `previous_secret_hash`, `scopes`, `state`, `other_limits`, `limits_from`, `allowed_ips`, `revision`, `created_by_type`, `created_by_id`, `signed_by`, `previous_signed_by`)) + iif(octet_length(concat(`id`, `account_id`, `name`, `external_id`, `metadata`, `last4`, `imported_prefix`, `secret_hash`, `previous_secret_hash`, `scopes`, `state`, `other_limits`, `limits_from`, `allowed_ips`, `revision`, `created_by_type`, `created_by_id`, `signed_by`, `previous_signed_by`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`api_keys`.`row_bytes`) FROM `api_keys` WHERE `api_keys`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `api_keys_added` AFTER INSERT ON `api_keys` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `api_keys_changed` AFTER UPDATE ON `api_keys` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `api_keys_deleted` AFTER DELETE ON `api_keys` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `imported_secrets` ADD `row_bytes` integer GENERATED ALWAYS AS (200 + octet_length(concat(`algorithm`, `digest`, `account_id`, `key_id`, `strip`, `prefix`)) + iif(octet_length(concat(`algorithm`, `digest`, `account_id`, `key_id`, `strip`, `prefix`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`imported_secrets`.`row_bytes`) FROM `imported_secrets` WHERE `imported_secrets`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `imported_secrets_added` AFTER INSERT ON `imported_secrets` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `imported_secrets_changed` AFTER UPDATE ON `imported_secrets` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `imported_secrets_deleted` AFTER DELETE ON `imported_secrets` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `attempts` ADD `row_bytes` integer GENERATED ALWAYS AS (max(0, 180 + octet_length(concat(`delivery_id`, `id`, `error`, `advice`, `response_body`, `response_headers`)) + iif(octet_length(concat(`delivery_id`, `id`, `error`, `advice`, `response_body`, `response_headers`)) > 1960, 2048, 0) - iif(`error` IS NULL, 760, 0))) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`attempts`.`row_bytes`) FROM `attempts` JOIN `deliveries` ON `deliveries`.`id` = `attempts`.`delivery_id` WHERE `deliveries`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `attempts_added` AFTER INSERT ON `attempts` WHEN NEW.`row_bytes` > 0 BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) SELECT `account_id`, NEW.`row_bytes` FROM `deliveries` WHERE `id` = NEW.`delivery_id` ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `attempts_changed` AFTER UPDATE ON `attempts` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = (SELECT `account_id` FROM `deliveries` WHERE `id` = NEW.`delivery_id`); END;--> statement-breakpoint
CREATE TRIGGER `attempts_deleted` AFTER DELETE ON `attempts` WHEN OLD.`row_bytes` > 0 BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = (SELECT `account_id` FROM `deliveries` WHERE `id` = OLD.`delivery_id`); END;--> statement-breakpoint
ALTER TABLE `deliveries` ADD `row_bytes` integer GENERATED ALWAYS AS (1400) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`deliveries`.`row_bytes`) FROM `deliveries` WHERE `deliveries`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `deliveries_added` AFTER INSERT ON `deliveries` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `deliveries_deleted` AFTER DELETE ON `deliveries` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `redeliveries` ADD `row_bytes` integer GENERATED ALWAYS AS (180 + octet_length(concat(`account_id`, `id`, `webhook_id`, `filter`, `event_types`, `cursor`)) + iif(octet_length(concat(`account_id`, `id`, `webhook_id`, `filter`, `event_types`, `cursor`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`redeliveries`.`row_bytes`) FROM `redeliveries` WHERE `redeliveries`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `redeliveries_added` AFTER INSERT ON `redeliveries` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `redeliveries_changed` AFTER UPDATE ON `redeliveries` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `redeliveries_deleted` AFTER DELETE ON `redeliveries` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `webhook_backlogs` ADD `row_bytes` integer GENERATED ALWAYS AS (30 + octet_length(concat(`account_id`, `webhook_id`))) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`webhook_backlogs`.`row_bytes`) FROM `webhook_backlogs` WHERE `webhook_backlogs`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `webhook_backlogs_added` AFTER INSERT ON `webhook_backlogs` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `webhook_backlogs_changed` AFTER UPDATE ON `webhook_backlogs` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `webhook_backlogs_deleted` AFTER DELETE ON `webhook_backlogs` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `webhook_settlements` ADD `row_bytes` integer GENERATED ALWAYS AS (30 + octet_length(concat(`account_id`, `webhook_id`, `status`))) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`webhook_settlements`.`row_bytes`) FROM `webhook_settlements` WHERE `webhook_settlements`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `webhook_settlements_added` AFTER INSERT ON `webhook_settlements` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `webhook_settlements_changed` AFTER UPDATE ON `webhook_settlements` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `webhook_settlements_deleted` AFTER DELETE ON `webhook_settlements` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `row_bytes` integer GENERATED ALWAYS AS (130 + octet_length(concat(`target`)) + octet_length(concat(`account_id`, `id`, `url`, `target`, `host`, `answered_host`, `description`, `event_types`, `state`, `disabled_reason`, `encrypted_secret`, `previous_encrypted_secret`, `revision`)) + iif(octet_length(concat(`account_id`, `id`, `url`, `target`, `host`, `answered_host`, `description`, `event_types`, `state`, `disabled_reason`, `encrypted_secret`, `previous_encrypted_secret`, `revision`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`webhooks`.`row_bytes`) FROM `webhooks` WHERE `webhooks`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `webhooks_added` AFTER INSERT ON `webhooks` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `webhooks_changed` AFTER UPDATE ON `webhooks` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `webhooks_deleted` AFTER DELETE ON `webhooks` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `events` ADD `row_bytes` integer GENERATED ALWAYS AS (260 + octet_length(concat(`account_id`, `id`, `type`, `data`, `previous`, `request_id`)) + iif(octet_length(concat(`account_id`, `id`, `type`, `data`, `previous`, `request_id`)) > 1960, 2048, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`events`.`row_bytes`) FROM `events` WHERE `events`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `events_added` AFTER INSERT ON `events` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`, `events`) VALUES (NEW.`account_id`, NEW.`row_bytes`, 1) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`, `events` = `events` + 1; END;--> statement-breakpoint
CREATE TRIGGER `events_changed` AFTER UPDATE ON `events` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `events_deleted` AFTER DELETE ON `events` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes`, `events` = `events` - 1 WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `invitations` ADD `row_bytes` integer GENERATED ALWAYS AS (350 + octet_length(concat(`email`)) + octet_length(concat(`token_hash`, `id`, `account_id`, `kind`, `role`, `email`, `invited_by`, `used_by`)) + iif(octet_length(concat(`token_hash`, `id`, `account_id`, `kind`, `role`, `email`, `invited_by`, `used_by`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`invitations`.`row_bytes`) FROM `invitations` WHERE `invitations`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `invitations_added` AFTER INSERT ON `invitations` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `invitations_changed` AFTER UPDATE ON `invitations` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `invitations_deleted` AFTER DELETE ON `invitations` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `members` ADD `row_bytes` integer GENERATED ALWAYS AS (265 + octet_length(concat(`email_key`)) + octet_length(concat(`id`, `account_id`, `name`, `email`, `email_key`, `role`)) + iif(octet_length(concat(`id`, `account_id`, `name`, `email`, `email_key`, `role`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`members`.`row_bytes`) FROM `members` WHERE `members`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `members_added` AFTER INSERT ON `members` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `members_changed` AFTER UPDATE ON `members` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `members_deleted` AFTER DELETE ON `members` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `passkeys` ADD `row_bytes` integer GENERATED ALWAYS AS (160 + octet_length(concat(`id`, `member_id`, `name`, `public_key`, `transports`)) + iif(octet_length(concat(`id`, `member_id`, `name`, `public_key`, `transports`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`passkeys`.`row_bytes`) FROM `passkeys` JOIN `members` ON `members`.`id` = `passkeys`.`member_id` WHERE `members`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `passkeys_added` AFTER INSERT ON `passkeys` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) SELECT `account_id`, NEW.`row_bytes` FROM `members` WHERE `id` = NEW.`member_id` ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `passkeys_changed` AFTER UPDATE ON `passkeys` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = (SELECT `account_id` FROM `members` WHERE `id` = NEW.`member_id`); END;--> statement-breakpoint
CREATE TRIGGER `passkeys_deleted` AFTER DELETE ON `passkeys` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = (SELECT `account_id` FROM `members` WHERE `id` = OLD.`member_id`); END;--> statement-breakpoint
ALTER TABLE `recovery_codes` ADD `row_bytes` integer GENERATED ALWAYS AS (150 + octet_length(concat(`code_hash`, `member_id`))) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`recovery_codes`.`row_bytes`) FROM `recovery_codes` JOIN `members` ON `members`.`id` = `recovery_codes`.`member_id` WHERE `members`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `recovery_codes_added` AFTER INSERT ON `recovery_codes` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) SELECT `account_id`, NEW.`row_bytes` FROM `members` WHERE `id` = NEW.`member_id` ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `recovery_codes_changed` AFTER UPDATE ON `recovery_codes` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = (SELECT `account_id` FROM `members` WHERE `id` = NEW.`member_id`); END;--> statement-breakpoint
CREATE TRIGGER `recovery_codes_deleted` AFTER DELETE ON `recovery_codes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = (SELECT `account_id` FROM `members` WHERE `id` = OLD.`member_id`); END;--> statement-breakpoint
ALTER TABLE `sessions` ADD `row_bytes` integer GENERATED ALWAYS AS (440 + octet_length(concat(`token_hash`, `id`, `member_id`, `opened_with`, `confirmed_with`, `ip`, `country`, `user_agent`)) + iif(octet_length(concat(`token_hash`, `id`, `member_id`, `opened_with`, `confirmed_with`, `ip`, `country`, `user_agent`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`sessions`.`row_bytes`) FROM `sessions` JOIN `members` ON `members`.`id` = `sessions`.`member_id` WHERE `members`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `sessions_added` AFTER INSERT ON `sessions` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) SELECT `account_id`, NEW.`row_bytes` FROM `members` WHERE `id` = NEW.`member_id` ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `sessions_changed` AFTER UPDATE ON `sessions` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = (SELECT `account_id` FROM `members` WHERE `id` = NEW.`member_id`); END;--> statement-breakpoint
CREATE TRIGGER `sessions_deleted` AFTER DELETE ON `sessions` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = (SELECT `account_id` FROM `members` WHERE `id` = OLD.`member_id`); END;--> statement-breakpoint
ALTER TABLE `audit` ADD `row_bytes` integer GENERATED ALWAYS AS (60 + iif(`action` IN ('key.rotated', 'webhook.created', 'webhook.updated', 'webhook.secret_rotated', 'webhook.enabled'), 185, 0) + iif(`action` IN ('passkey.added', 'passkey.removed', 'recovery_codes.made', 'session.started', 'session.ended'), 135, 0) + octet_length(concat(`account_id`, `id`, `actor_type`, `actor_id`, `action`, `target_type`, `target_id`, `target_name`, `ip`, `country`, `changes`)) + iif(octet_length(concat(`account_id`, `id`, `actor_type`, `actor_id`, `action`, `target_type`, `target_id`, `target_name`, `ip`, `country`, `changes`)) > 920, 4096, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`audit`.`row_bytes`) FROM `audit` WHERE `audit`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `audit_added` AFTER INSERT ON `audit` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`) VALUES (NEW.`account_id`, NEW.`row_bytes`) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`; END;--> statement-breakpoint
CREATE TRIGGER `audit_changed` AFTER UPDATE ON `audit` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `audit_deleted` AFTER DELETE ON `audit` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes` WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
ALTER TABLE `idempotency_keys` ADD `row_bytes` integer GENERATED ALWAYS AS (310 + octet_length(concat(`account_id`, `operation`, `key_hash`, `fingerprint`, `headers`, `body`)) + iif(octet_length(concat(`account_id`, `operation`, `key_hash`, `fingerprint`, `headers`, `body`)) > 1960, 2048, 0)) VIRTUAL;--> statement-breakpoint
UPDATE `account_storage` SET `bytes` = `bytes` + coalesce((SELECT sum(`idempotency_keys`.`row_bytes`) FROM `idempotency_keys` WHERE `idempotency_keys`.`account_id` = `account_storage`.`account_id`), 0);--> statement-breakpoint
CREATE TRIGGER `idempotency_keys_added` AFTER INSERT ON `idempotency_keys` BEGIN INSERT INTO `account_storage` (`account_id`, `bytes`, `idempotency_keys`) VALUES (NEW.`account_id`, NEW.`row_bytes`, 1) ON CONFLICT (`account_id`) DO UPDATE SET `bytes` = `bytes` + excluded.`bytes`, `idempotency_keys` = `idempotency_keys` + 1; END;--> statement-breakpoint
CREATE TRIGGER `idempotency_keys_changed` AFTER UPDATE ON `idempotency_keys` WHEN NEW.`row_bytes` <> OLD.`row_bytes` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` + NEW.`row_bytes` - OLD.`row_bytes` WHERE `account_id` = NEW.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `idempotency_keys_deleted` AFTER DELETE ON `idempotency_keys` BEGIN UPDATE `account_storage` SET `bytes` = `bytes` - OLD.`row_bytes`, `idempotency_keys` = `idempotency_keys` - 1 WHERE `account_id` = OLD.`account_id`; END;--> statement-breakpoint
CREATE TRIGGER `deliveries_begin_to_wait` AFTER INSERT ON `deliveries` WHEN NEW.`status` IN ('pending', 'held') BEGIN INSERT OR IGNORE INTO `webhook_backlogs` (`account_id`, `webhook_id`) VALUES (NEW.`account_id`, NEW.`webhook_id`); UPDATE `webhook_backlogs` SET `pending` = `pending` + (NEW.`status` = 'pending'), `held` = `held` + (NEW.`status` = 'held') WHERE `account_id` = NEW.`account_id` AND `webhook_id` = NEW.`webhook_id`; END;--> statement-breakpoint
CREATE TRIGGER `deliveries_change_status` AFTER UPDATE OF `status` ON `deliveries` WHEN NEW.`status` <> OLD.`status` BEGIN INSERT OR IGNORE INTO `webhook_backlogs` (`account_id`, `webhook_id`) VALUES (NEW.`account_id`, NEW.`webhook_id`); UPDATE `webhook_backlogs` SET `pending` = `pending` + (NEW.`status` = 'pending') - (OLD.`status` = 'pending'), `held` = `held` + (NEW.`status` = 'held') - (OLD.`status` = 'held') WHERE `account_id` = NEW.`account_id` AND `webhook_id` = NEW.`webhook_id`; END;--> statement-breakpoint
CREATE TRIGGER `deliveries_stop_waiting` AFTER DELETE ON `deliveries` WHEN OLD.`status` IN ('pending', 'held') BEGIN UPDATE `webhook_backlogs` SET `pending` = `pending` - (OLD.`status` = 'pending'), `held` = `held` - (OLD.`status` = 'held') WHERE `account_id` = OLD.`account_id` AND `webhook_id` = OLD.`webhook_id`; END;--> statement-breakpoint
CREATE TRIGGER `webhook_slots_opened` AFTER UPDATE OF `claim` ON `deliveries` WHEN NEW.`claim` IS NOT NULL BEGIN INSERT INTO `webhook_slots` (`host`, `slot`, `taken_by`, `claim`, `started_at`, `is_open`, `is_answered`) SELECT `host`, coalesce((SELECT `old`.`slot` FROM `webhook_slots` AS `old` WHERE `old`.`host` = `webhooks`.`host` AND `old`.`started_at` <= NEW.`claimed_until` - 60000 - iif(`old`.`is_answered`, iif(`old`.`is_open`, 20000, 1000), 3600000) LIMIT 1), (SELECT coalesce(max(`last`.`slot`), -1) + 1 FROM `webhook_slots` AS `last` WHERE `last`.`host` = `webhooks`.`host`)), NEW.`account_id`, NEW.`claim`, NEW.`claimed_until` - 60000, 1, EXISTS (SELECT 1 FROM `webhooks` AS `answered` WHERE `answered`.`answered_host` = `webhooks`.`host`) FROM `webhooks` WHERE `webhooks`.`account_id` = NEW.`account_id` AND `webhooks`.`id` = NEW.`webhook_id` ON CONFLICT (`host`, `slot`) DO UPDATE SET `taken_by` = excluded.`taken_by`, `claim` = excluded.`claim`, `started_at` = excluded.`started_at`, `is_open` = 1, `is_answered` = excluded.`is_answered`; END;--> statement-breakpoint
CREATE TRIGGER `webhook_slots_closed` AFTER UPDATE OF `claim` ON `deliveries` WHEN OLD.`claim` IS NOT NULL AND NEW.`claim` IS NULL BEGIN UPDATE `webhooks` SET `answered_host` = `host` WHERE NEW.`status` = 'delivered' AND `account_id` = OLD.`account_id` AND `id` = OLD.`webhook_id` AND `answered_host` IS NOT `host` AND EXISTS (SELECT 1 FROM `webhook_slots` WHERE `webhook_slots`.`host` = `webhooks`.`host` AND `webhook_slots`.`claim` = OLD.`claim`); UPDATE `webhook_slots` SET `is_open` = 0 WHERE `claim` = OLD.`claim` AND `host` = (SELECT `host` FROM `webhooks` WHERE `account_id` = OLD.`account_id` AND `id` = OLD.`webhook_id`); END;--> statement-breakpoint
CREATE TRIGGER `webhook_host_answered` AFTER UPDATE OF `answered_host` ON `webhooks` WHEN NEW.`answered_host` IS NOT NULL AND NEW.`answered_host` IS NOT OLD.`answered_host` BEGIN UPDATE `deliveries` SET `next_attempt_at` = `created_at` WHERE `account_id` = NEW.`account_id` AND `webhook_id` = NEW.`id` AND `status` = 'pending' AND (`attempts_made` = 0 OR `claim` IS NOT NULL) AND `redelivery_id` IS NULL AND `next_attempt_at` > `created_at`; END;
