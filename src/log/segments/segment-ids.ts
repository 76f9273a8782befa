import { sql } from "drizzle-orm";

// The id of a segment is the number of its log, times 2^31, plus the number of the segment. The segments of an account are therefore neighbours in
// D1, and need no further index.

const segmentsPerLog = 2 ** 31;

/** SQL for the id of a segment. `segment`: SQL for the number of the segment. The query must read `activity_logs AS log`. */
export const idOfSegment = (segment: string) => sql.raw(`log.number * ${segmentsPerLog} + (${segment})`);

const isOfLog = `segment.id > log.number * ${segmentsPerLog} AND segment.id < (log.number + 1) * ${segmentsPerLog}`;

/** The SQL that joins the segments of a log. The query must read `activity_logs AS log` before. */
export const joinSegments = sql.raw(`CROSS JOIN activity_segments AS segment ON ${isOfLog}`);

/** An SQL condition that is true if a log has no segments. The query must read `activity_logs AS log`. */
export const hasNoSegments = sql.raw(`NOT EXISTS (SELECT 1 FROM activity_segments AS segment WHERE ${isOfLog})`);
