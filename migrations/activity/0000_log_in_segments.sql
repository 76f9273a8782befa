CREATE TABLE `activity_logs` (
	`number` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`account_id` text NOT NULL,
	`owner` integer NOT NULL,
	`flush` integer NOT NULL,
	`flush_id` text NOT NULL,
	`segments` integer NOT NULL,
	`as_of` integer NOT NULL,
	`start_id` text NOT NULL,
	`revision` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `activity_logs_account_id_unique` ON `activity_logs` (`account_id`);--> statement-breakpoint
CREATE TABLE `activity_segments` (
	`id` integer PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`first_id` text NOT NULL,
	`last_id` text NOT NULL,
	`entries` integer NOT NULL,
	`requests` integer NOT NULL,
	`summary` blob NOT NULL,
	`body` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `day_totals` (
	`account_id` text NOT NULL,
	`start` integer NOT NULL,
	`part` integer NOT NULL,
	`totals` text NOT NULL,
	`keys` text NOT NULL,
	PRIMARY KEY(`account_id`, `start`, `part`)
);
--> statement-breakpoint
CREATE TABLE `hour_totals` (
	`account_id` text NOT NULL,
	`start` integer NOT NULL,
	`part` integer NOT NULL,
	`totals` text NOT NULL,
	`keys` text NOT NULL,
	PRIMARY KEY(`account_id`, `start`, `part`)
);
--> statement-breakpoint
CREATE TABLE `last_uses` (
	`account_id` text NOT NULL,
	`part` integer NOT NULL,
	`uses` text NOT NULL,
	PRIMARY KEY(`account_id`, `part`)
);
