/**
 * Names under which a translated core module exports what growth was refused to it. Apart from the code that puts them
 * there, so that the host loads nothing but the names.
 *
 * @module
 */

/** Exported global (`i64`) that holds the first refused total of a memory, in pages; 0: none. */
export const DENIED_MEMORY = "murmur:denied-memory";

/** Exported global (`i64`) that holds the first refused total of a table, in elements; 0: none. */
export const DENIED_TABLE = "murmur:denied-table";
