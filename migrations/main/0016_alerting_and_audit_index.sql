CREATE TABLE `alerting` (
	`only` integer PRIMARY KEY NOT NULL,
	`state` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `operator_audit_by_account` ON `operator_audit` (`account_id`,`id`);