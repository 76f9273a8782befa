CREATE TABLE `usage_day_totals` (
	`account_id` text NOT NULL,
	`start` integer NOT NULL,
	`key_id` text NOT NULL,
	`by_status` text NOT NULL,
	`histogram` text NOT NULL,
	PRIMARY KEY(`account_id`, `key_id`, `start`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `usage_hour_totals` (
	`account_id` text NOT NULL,
	`start` integer NOT NULL,
	`key_id` text NOT NULL,
	`by_status` text NOT NULL,
	`histogram` text NOT NULL,
	PRIMARY KEY(`account_id`, `key_id`, `start`)
) WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO `usage_day_totals`
WITH statuses AS (
	SELECT account_id, start, key_id, status, sum(requests) AS requests, sum(admitted) AS admitted, sum(duration_ms) AS duration_ms
	FROM `usage_days` GROUP BY account_id, start, key_id, status
	UNION ALL
	SELECT account_id, start, '', status, sum(requests), sum(admitted), sum(duration_ms) FROM `usage_days` GROUP BY account_id, start, status
), durations AS (
	SELECT account_id, start, key_id, bucket.key AS duration, sum(bucket.value) AS admitted
	FROM `usage_days`, json_each(histogram) AS bucket GROUP BY account_id, start, key_id, duration
	UNION ALL
	SELECT account_id, start, '', bucket.key AS duration, sum(bucket.value)
	FROM `usage_days`, json_each(histogram) AS bucket GROUP BY account_id, start, duration
), histograms AS (
	SELECT account_id, start, key_id, json_group_object(duration, admitted) AS histogram FROM durations GROUP BY account_id, start, key_id
), by_status AS (
	SELECT account_id, start, key_id, json_group_object(CAST(status AS TEXT), json_array(requests, admitted, duration_ms)) AS by_status
	FROM statuses GROUP BY account_id, start, key_id
)
SELECT account_id, start, key_id, by_status, coalesce(histogram, '{}') FROM by_status LEFT JOIN histograms USING (account_id, start, key_id);
--> statement-breakpoint
INSERT INTO `usage_hour_totals`
WITH statuses AS (
	SELECT account_id, start, key_id, status, sum(requests) AS requests, sum(admitted) AS admitted, sum(duration_ms) AS duration_ms
	FROM `usage_hours` GROUP BY account_id, start, key_id, status
	UNION ALL
	SELECT account_id, start, '', status, sum(requests), sum(admitted), sum(duration_ms) FROM `usage_hours` GROUP BY account_id, start, status
), durations AS (
	SELECT account_id, start, key_id, bucket.key AS duration, sum(bucket.value) AS admitted
	FROM `usage_hours`, json_each(histogram) AS bucket GROUP BY account_id, start, key_id, duration
	UNION ALL
	SELECT account_id, start, '', bucket.key AS duration, sum(bucket.value)
	FROM `usage_hours`, json_each(histogram) AS bucket GROUP BY account_id, start, duration
), histograms AS (
	SELECT account_id, start, key_id, json_group_object(duration, admitted) AS histogram FROM durations GROUP BY account_id, start, key_id
), by_status AS (
	SELECT account_id, start, key_id, json_group_object(CAST(status AS TEXT), json_array(requests, admitted, duration_ms)) AS by_status
	FROM statuses GROUP BY account_id, start, key_id
)
SELECT account_id, start, key_id, by_status, coalesce(histogram, '{}') FROM by_status LEFT JOIN histograms USING (account_id, start, key_id);
--> statement-breakpoint
ALTER TABLE `usage_days` DROP COLUMN `histogram`;
--> statement-breakpoint
ALTER TABLE `usage_hours` DROP COLUMN `histogram`;
