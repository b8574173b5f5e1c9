/**
 * A combination of flags that makes no sense: no coded error, exit status 2 (spec cli 1.2).
 *
 * @module
 */

/** Thrown before anything was done. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}
