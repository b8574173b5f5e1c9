/**
 * Putting the referee together from its parts. Loaded once the daemon listens.
 *
 * @module
 */
import { type DelegationBounds, Ledger } from "./ledger.ts";
import { Referee, type RefereeParts } from "./referee.ts";
import { loadFindArtifact, StoreRegistry } from "./registry.ts";

/** What the operator set and the start found. */
export interface RefereeOptions extends Pick<RefereeParts, "census" | "spawnAllow" | "log"> {
  readonly bounds: DelegationBounds;
  /** Ids of the sessions that were found running. */
  readonly found: readonly string[];
  /** Absolute path of the registry. */
  readonly registryPath: string;
}

/** A referee that is ready: what reads manifests is loaded too. */
export async function openReferee({ bounds, found, registryPath, ...parts }: RefereeOptions): Promise<Referee> {
  await loadFindArtifact();
  return new Referee({ ...parts, ledger: new Ledger(bounds, found), registry: new StoreRegistry(registryPath) });
}
