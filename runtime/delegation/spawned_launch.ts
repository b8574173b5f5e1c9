/**
 * What a session launched by another one was handed beside its flags: the approval and the snapshot's report on standard
 * input, the handle and the lifeline by environment (spec roost 9, 11, 13, 16.1).
 *
 * @module
 */
import type { SnapshotReport } from "./snapshot_report.ts";
import type { SpawnerHandle } from "./spawner_handle.ts";

/** A launch by another session. */
export interface SpawnedLaunch {
  /** From `--spawn-grant-stdin`; `null` without that flag. In memory only. */
  readonly approval: string | null;
  /** `MURMUR_SPAWNER`; `null` without it. */
  readonly handle: SpawnerHandle | null;
  /** Descriptor of the lifeline, close-on-exec by now; `null` without one. */
  readonly lifeline: number | null;
  /** What the work folder holds of the parent's; `null` when it began empty. */
  readonly snapshot: SnapshotReport | null;
}
