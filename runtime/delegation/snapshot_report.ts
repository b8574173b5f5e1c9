/**
 * What a workdir snapshot took and left out, as both sides record it (roost seed "Workdir snapshot", spec roost 11).
 *
 * @module
 */

/** Why an entry is not in the copy. */
export type SkipReason = "fifo" | "socket" | "device" | "unreadable" | "runtime-owned";

/** An entry of the parent's folder that is not in the copy. */
export interface SkippedEntry {
  /** Relative to the parent's folder. */
  readonly path: string;
  readonly reason: SkipReason;
}

/** The record of a copy, keys as in the trace of both sides. */
export interface SnapshotReport {
  /** The parent's work folder, absolute. */
  readonly source: string;
  readonly files: number;
  readonly directories: number;
  readonly links: number;
  /** Bytes of content, holes included. */
  readonly bytes: number;
  /** In the order they were met, the first of them: a folder may hold any number. */
  readonly skipped: readonly SkippedEntry[];
  /** How many more were skipped than are listed; absent when all are. */
  readonly skipped_unlisted?: number;
}
