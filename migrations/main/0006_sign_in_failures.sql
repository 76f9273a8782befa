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
