// A manifest describes an area for code that works on all areas. `src/resources.ts` lists the manifests, and `src/registry/` reads them.

/** Facts about a table that its columns do not show. All facts are optional. */
export interface TableFacts {
  /**
   * The column that contains the account id (default: `account_id`). If `table` is set, the column instead refers to a row of that table, and the
   * referenced row belongs to the account.
   */
  owner?: { column: string } | { column: string; table: string };
  /**
   * The maximum number of rows that an account may have in the table. `advice`: the rest of the error message that starts with "An account may have
   * 50,000". Without `rows`, the number of rows has no limit.
   */
  rows?: { max: number; advice: string };
  /**
   * How the table's rows count toward the storage quota of the account. By default, the size of a row is calculated from the table's indexes and
   * texts.
   */
  bytes?: RowBytes;
  /** Whether SQLite stores the table by its primary key (`WITHOUT ROWID`). `WITHOUT ROWID` saves a third of the pages if rows are narrow. */
  withoutRowid?: boolean;
  export?: TableExport | "left out";
  /** "by hand" means that the area erases the rows with its own code. */
  erasure?: TableErasure | "kept" | "by hand";
  /**
   * The column that identifies sample rows: a column with a time, or a column with ids that start with `prefix`. Without `sampleUntil`, the table has
   * no sample rows.
   */
  sampleUntil?: string | { column: string; prefix: string };
}

/**
 * The size of a row in the database, in bytes. `row`: the size of numbers and index entries, without texts. `indexed`: columns whose text is repeated
 * in an index. `overflows`: false if the texts of a row are always too short to need an overflow page. `sql`: an SQL expression for the size, in
 * place of the calculation. `mayBeZero`: true if the SQL expression may return 0. Rows with size 0 are not counted.
 */
export type RowBytes = { row: number; indexed?: readonly string[]; overflows?: false } | { sql: string; mayBeZero?: true } | "not counted";

/** How the rows of an account are exported. */
export interface TableExport {
  /** The `type` of the exported lines (default: the name of the table). */
  as?: string;
  /**
   * The columns that sort the export. An index must contain the sort columns in this order after `account_id`. By default, the primary key sorts the
   * export.
   */
  order?: readonly [string, ...string[]];
  /** Columns that are not exported: hashes, encrypted secrets, and columns that only serve lookups. */
  hidden?: readonly string[];
  /** The number of rows that one statement reads (default: 200). */
  rowsAtOnce?: number;
}

/** How the rows of an account are erased. */
export interface TableErasure {
  /** The label of the rows in the erasure report (default: the name of the table). */
  as?: string;
}

/** Event types about the same kind of object. The data of these event types have the same shape. */
export interface EventGroup {
  /** The name of the data's schema in the OpenAPI document. */
  schema: string;
  /** The scope that a key needs to read these events. */
  scope: string;
  /** The data of an example event. */
  example: Readonly<Record<string, unknown>>;
  /** The event types by name. An event type for changes also has an example of the previous values. */
  types: Readonly<Record<string, EventType>>;
}

export interface EventType {
  description: string;
  previous?: Readonly<Record<string, unknown>>;
}

/** The data that describe an area of the project. */
export interface Manifest {
  /** The name of the area's folder. */
  name: string;
  /** The position of the area in lists of scopes, event types and documentation sections. */
  order: number;
  /** The documentation sections that contain the area's routes. */
  tags?: readonly { name: string; description: string }[];
  /** The id prefixes of the area, each with the kind of object that it identifies. */
  ids?: Readonly<Record<string, string>>;
  /** The scopes that the area defines for keys. `isDefault`: whether a new key gets the scope by default. */
  scopes?: Readonly<Record<string, { isDefault: boolean }>>;
  events?: readonly EventGroup[];
  /** Further limits for clients, by name. Guides refer to a limit as, for example, `{{tasks.scannedMb}}`. */
  limits?: Readonly<Record<string, number>>;
  /** Sentences for the guide to limits, with placeholders for limits from this manifest. */
  limitNotes?: readonly string[];
  /**
   * The exports of `tables.ts`, and of `log-tables.ts` for the log databases. Every table is exported and erased with its account unless `facts` says
   * otherwise.
   */
  tables?: Readonly<Record<string, unknown>>;
  logTables?: Readonly<Record<string, unknown>>;
  /** Facts about tables, by the names under which the modules export the tables. */
  facts?: Readonly<Record<string, TableFacts>>;
  /** The other areas whose tables this area reads. An area never writes to tables of other areas. */
  reads?: readonly string[];
  /**
   * Files that handle deletions in other areas, by the name of the other area. When another area deletes a row to which this area refers, the other
   * area calls the file.
   */
  onDelete?: Readonly<Record<string, string>>;
}
