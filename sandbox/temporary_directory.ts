/**
 * Where `/tmp` and `TMPDIR` of a command lead (spec containment 8). One decision for enforcement and report. Pure.
 *
 * @module
 */
import type { ConfineTier } from "./confine_records.ts";

/** The decision. */
export interface TemporaryDirectory {
  /** Whether the session's folder stands in the place of `/tmp`. */
  readonly mapped: boolean;
  /** Value of `TMPDIR`, `TMP` and `TEMP`. */
  readonly variable: string;
}

/**
 * Decides.
 *
 * @param folder `<records>/tmp`.
 */
export function temporaryDirectory(
  tier: ConfineTier,
  privateMounts: boolean,
  workdir: string,
  folder: string,
): TemporaryDirectory {
  const mapped = tier === "sealed" || (tier !== "env" && privateMounts && workdir !== "/tmp");
  return { mapped, variable: mapped ? "/tmp" : folder };
}
