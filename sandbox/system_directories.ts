/**
 * Where a system keeps its programs and their libraries (spec containment 5.1, row 2).
 *
 * @module
 */

/** Absolute paths; some are links to others, or absent. */
export const SYSTEM_DIRECTORIES: readonly string[] = [
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
];
