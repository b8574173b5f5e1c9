/**
 * Putting the referee together from its parts. Loaded once the daemon listens.
 *
 * @module
 */
import type { RecordedSession } from "./count_running.ts";
import type { RoostBounds } from "../base/roost_bounds.ts";
import { Ledger } from "./ledger.ts";
import { Referee, type RefereeParts } from "./referee.ts";
import { loadFindArtifact, StoreRegistry } from "./registry.ts";
import { RunningCensus } from "./running_census.ts";

/** What the operator set and the start found. */
export interface RefereeOptions extends Pick<RefereeParts, "spawnAllow" | "log" | "approvalMs"> {
  readonly bounds: RoostBounds;
  /** Sessions that were found running. */
  readonly found: readonly RecordedSession[];
  /** Absolute path of the running-capsule records. */
  readonly runningPath: string;
  /** Absolute path of the registry. */
  readonly registryPath: string;
}

/** A referee that is ready: what reads manifests is loaded too. */
export async function openReferee(options: RefereeOptions): Promise<Referee> {
  const { bounds, found, runningPath, registryPath, ...parts } = options;
  await loadFindArtifact();
  return new Referee({
    ...parts,
    ledger: new Ledger(bounds, parts.approvalMs, found.map(({ session_id }) => session_id)),
    registry: new StoreRegistry(registryPath),
    census: new RunningCensus(runningPath, found),
  });
}
