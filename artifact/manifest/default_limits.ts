/**
 * What a component may use when its manifest says nothing.
 *
 * @module
 */

/** Defaults of `capabilities.limits` (spec manifest 9.7). */
export const DEFAULT_LIMITS = {
  memoryBytes: 536_870_912,
  tableElements: 100_000,
  instances: 1000,
  deadlineSeconds: 600,
};
