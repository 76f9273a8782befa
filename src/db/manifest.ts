// A manifest describes one area of the project. Code that works on all areas reads the manifests. `src/resources.ts` lists the manifests,
// and `src/registry/` reads them.

/** Facts about a table that its columns do not show. All facts are optional. */
export interface TableFacts {
  /**
   * The column that contains the account id (default: `account_id`). If `table` is set, the column instead contains the id of a row in that
   * table. That row belongs to the account.
   */
  owner?: { column: string } | { column: string; table: string };
  /**
   * The maximum number of rows that an account may have in the table. The error message starts with, for example, "An account may have
   * 50,000". `advice` is the rest of the message. If `rows` is not set, the number of rows has no limit.
   */
  rows?: { max: number; advice: string };
  /**
   * How the table's rows count toward the storage quota of the account. By default, the size of a row is calculated from the number of
   * indexes and the length of the texts.
   */
  bytes?: RowBytes;
  /**
   * Whether SQLite stores the rows in the primary key (`WITHOUT ROWID`). If rows are short, `WITHOUT ROWID` saves a third of the database
   * pages.
   */
  withoutRowid?: boolean;
  export?: TableExport | "left out";
  /** "by hand" means that the area erases the rows with its own code. */
  erasure?: TableErasure | "kept" | "by hand";
}

/**
 * The size of a row in the database, in bytes. `row`: the size of the numbers and index entries, without the texts. `indexed`: text columns
 * that an index also contains. `overflows`: false if the texts of a row are always too short to need an overflow page. `sql`: an SQL
 * expression that replaces the calculated size. `mayBeZero`: true if the SQL expression may return 0. Rows with size 0 are not counted.
 */
export type RowBytes = { row: number; indexed?: readonly string[]; overflows?: false } | { sql: string; mayBeZero?: true } | "not counted";

/** How the rows of an account are exported. */
export interface TableExport {
  /** The value of `type` in each exported line (default: the name of the table). */
  as?: string;
  /**
   * The columns by which the export is sorted. The table needs an index that has these columns in this order after `account_id`. By
   * default, the export is sorted by the primary key.
   */
  order?: readonly [string, ...string[]];
  /** Columns that are not exported: hashes, encrypted secrets, and columns that exist only for lookups. */
  hidden?: readonly string[];
  /** The number of rows that one statement of the export reads (default: 200). */
  rowsAtOnce?: number;
}

/** How the rows of an account are erased. */
export interface TableErasure {
  /** The label of the rows in the erasure report (default: the name of the table). */
  as?: string;
}

/** Event types about the same kind of object. The data of all their events have the same shape. */
export interface EventGroup {
  /** The name of the OpenAPI schema for the event data. */
  schema: string;
  /** The scope that a key needs to read these events. */
  scope: string;
  /** The data of an example event. */
  example: Readonly<Record<string, unknown>>;
  /** The event types by name. An event type that describes a change also has example previous values. */
  types: Readonly<Record<string, EventType>>;
}

export interface EventType {
  description: string;
  previous?: Readonly<Record<string, unknown>>;
}

/** A description of one area of the project. */
export interface Manifest {
  /** The name of the folder with the manifest. */
  name: string;
  /** The position of the area in lists of scopes, event types and documentation sections. */
  order: number;
  /** Whether the area is a sample resource. If `SAMPLE_RESOURCES` is `off`, the area is neither served nor documented. */
  isSample?: true;
  /** The documentation sections that contain the area's routes. */
  tags?: readonly { name: string; description: string }[];
  /** The id prefixes of the area. Each value names the kind of object that has the prefix. */
  ids?: Readonly<Record<string, string>>;
  /** The scopes that the area defines for keys. `isDefault`: whether a new key gets the scope by default. */
  scopes?: Readonly<Record<string, { isDefault: boolean }>>;
  /** The operations of the area whose requests cost more than one unit of a key's limits, by their id. */
  costs?: Readonly<Record<string, number>>;
  events?: readonly EventGroup[];
  /** Further limits that apply to clients, by name. A guide shows a limit with a placeholder, for example `{{tasks.scannedMb}}`. */
  limits?: Readonly<Record<string, number>>;
  /** Sentences for the guide about limits. The sentences can contain placeholders for limits from this manifest. */
  limitNotes?: readonly string[];
  /**
   * `tables`: the exports of `tables.ts`. `logTables`: the exports of `log-tables.ts`, for the log databases. The export and the erasure of
   * an account include all tables that `facts` does not exclude.
   */
  tables?: Readonly<Record<string, unknown>>;
  logTables?: Readonly<Record<string, unknown>>;
  /** Facts about tables. Each key is the name under which `tables.ts` or `log-tables.ts` exports the table. */
  facts?: Readonly<Record<string, TableFacts>>;
  /** The other resources whose tables this resource reads. A resource never writes to tables of others. */
  reads?: readonly string[];
  /**
   * Files of this area, by the name of another area. Each file exports `onDelete` (`src/jobs/on-delete.ts`). The other area runs `onDelete` before it
   * deletes a row to which rows of this area may refer.
   */
  onDelete?: Readonly<Record<string, string>>;
}
