// What an area says of itself to those that span all areas. `src/resources.ts` lists the manifests; `src/registry/` reads them.

/** What is known of a table besides its columns. All of it has a default. */
export interface TableFacts {
  /** The column that holds the account's id; or the column that refers to a row of another table of the area, whose account it is. By default `account_id`. */
  owner?: { column: string } | { column: string; table: string };
  /** How many rows an account may have, and what to do about it where it has them. By default any number. */
  rows?: { max: number; advice: string };
  /** How its rows are counted against the storage of the account. By default as a row of its indexes and texts. */
  bytes?: RowBytes;
  /** Whether SQLite stores it by its primary key (`WITHOUT ROWID`), which takes a third fewer pages where rows are narrow. */
  withoutRowid?: boolean;
  export?: TableExport | "left out";
  /** "by hand": the area's own code does it. */
  erasure?: TableErasure | "kept" | "by hand";
  /** The column by which made-up rows are told from others: it has a time, or an id with this prefix. By default none is made up. */
  sampleUntil?: string | { column: string; prefix: string };
}

/**
 * What a row takes in the database, in bytes, besides the texts in it: numbers, and its entries in indexes. `indexed`: columns whose text an index repeats.
 * `overflows`: false where the texts are so short that a row never takes a page of its own. `sql`: an expression in place of all this. `mayBeZero`: it may
 * say that a row takes nothing, which then is not counted.
 */
export type RowBytes = { row: number; indexed?: readonly string[]; overflows?: false } | { sql: string; mayBeZero?: true } | "not counted";

/** How the rows of an account are exported. */
export interface TableExport {
  /** The `type` of its lines. By default the name of the table. */
  as?: string;
  /** The columns that an index has in this order, behind the account. By default the primary key. */
  order?: readonly [string, ...string[]];
  /** Columns that are left out: hashes and encrypted secrets, and columns that only find rows. */
  hidden?: readonly string[];
  /** Rows that one statement reads. By default 200. */
  rowsAtOnce?: number;
}

/** How the rows of an account are erased. */
export interface TableErasure {
  /** What the report calls them. By default the name of the table. */
  as?: string;
}

/** Types of events about one thing, whose data have one shape. */
export interface EventGroup {
  /** What the OpenAPI document calls the shape. */
  schema: string;
  /** The scope that a key needs to read them. */
  scope: string;
  /** Data as such an event has. */
  example: Readonly<Record<string, unknown>>;
  /** By type: what it means and, of an event of a change, an example of the former values. */
  types: Readonly<Record<string, EventType>>;
}

export interface EventType {
  description: string;
  previous?: Readonly<Record<string, unknown>>;
}

/** What an area is, as data. */
export interface Manifest {
  /** The name of its folder. */
  name: string;
  /** Its place where scopes, types of events and the parts of the documentation are listed. */
  order: number;
  /** The parts of the documentation that its routes stand in. */
  tags?: readonly { name: string; description: string }[];
  /** What its ids begin with, and what they are ids of. */
  ids?: Readonly<Record<string, string>>;
  /** What keys may be allowed. `isDefault`: a new key may do it unless its maker says otherwise. */
  scopes?: Readonly<Record<string, { isDefault: boolean }>>;
  events?: readonly EventGroup[];
  /** Further numbers that bound what clients may do, by name: a guide shows one as `{{tasks.scannedMb}}`. */
  limits?: Readonly<Record<string, number>>;
  /** Sentences for the guide to limits, with figures of this manifest in braces. */
  limitNotes?: readonly string[];
  /** The module `tables.ts`, and `log-tables.ts` for the databases of logs. Every table in them is erased and exported unless `facts` says otherwise. */
  tables?: Readonly<Record<string, unknown>>;
  logTables?: Readonly<Record<string, unknown>>;
  /** By the name that a table is exported under. */
  facts?: Readonly<Record<string, TableFacts>>;
  /** The areas whose tables it reads. It writes its own alone. */
  reads?: readonly string[];
  /** The areas whose rows it refers to, and the file that says what happens when one of those is deleted: the other area may call it. */
  onDelete?: Readonly<Record<string, string>>;
}
