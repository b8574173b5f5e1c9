/**
 * The bounds a `mur-roost` was started with, and how it tells them beside its answer to the health check, whose body is `{}`.
 *
 * @module
 */

/** Response header of `/health` with the bounds, e.g. `max-depth=3, max-concurrent=4, max-live-capsules=64`. */
export const BOUNDS_HEADER = "x-murmur-bounds";

/** The three bounds of a daemon. */
export interface RoostBounds {
  /** Levels of delegation below a session that an operator started. */
  readonly maxDepth: number;
  /** Children one session holds live at once. */
  readonly maxConcurrent: number;
  /** Capsules live on the host at once. */
  readonly maxLiveCapsules: number;
}

/** Value of {@linkcode BOUNDS_HEADER}. */
export function formatBounds({ maxDepth, maxConcurrent, maxLiveCapsules }: RoostBounds): string {
  return `max-depth=${maxDepth}, max-concurrent=${maxConcurrent}, max-live-capsules=${maxLiveCapsules}`;
}

/** The bounds of a header; `null` without them. */
export function parseBounds(value: string | undefined): RoostBounds | null {
  const match = /^max-depth=(\d{1,16}), max-concurrent=(\d{1,16}), max-live-capsules=(\d{1,16})$/.exec(value ?? "");
  if (match === null) return null;
  const [maxDepth, maxConcurrent, maxLiveCapsules] = match.slice(1).map(Number) as [number, number, number];
  return { maxDepth, maxConcurrent, maxLiveCapsules };
}
