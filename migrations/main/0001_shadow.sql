CREATE TABLE `shadow_findings` (
	`account` text NOT NULL,
	`key` text NOT NULL,
	`code` text NOT NULL,
	`own` text NOT NULL,
	`credential` text NOT NULL,
	`count` integer NOT NULL,
	`first_at` integer NOT NULL,
	`last_at` integer NOT NULL,
	`request` text NOT NULL,
	PRIMARY KEY(`account`, `key`, `code`, `own`, `credential`)
);
--> statement-breakpoint
CREATE INDEX `shadow_findings_by_time` ON `shadow_findings` (`last_at`);--> statement-breakpoint
CREATE TABLE `shadow_holders` (
	`holder` text PRIMARY KEY NOT NULL,
	`sequence` integer NOT NULL,
	`at` integer NOT NULL
);
