/**
 * What a plan's `capsule` step needs of delegation: one child started, its answer awaited, and its end when the task is
 * cancelled (spec roost 15).
 *
 * @module
 */
import { shownValue } from "../../artifact/manifest/shown_value.ts";
import type { CallScope } from "../agent/tool_dispatch.ts";
import type { StepEnd } from "./step_end.ts";

/** Runs sub-capsules for plans. */
export interface CapsuleSteps {
  /**
   * Starts the one installed version of a capsule, hands it the objective, and waits for its task to end. `output` is the
   * child's answer, `error` its status message or why it could not be spawned, which is final when it was refused. The child
   * is ended before this settles.
   * It writes its own `delegation_start` and `delegation` lines.
   *
   * Within about a second of `scope.signal` being aborted it settles, wherever the launch or the wait stands; whoever owns
   * the task's delegations then ends the child.
   *
   * @param capsule As the plan names it: an entry of `capabilities.spawn.allow`, or its bare name.
   * @throws {MurError} What keeps a child from being started fails the step; `E-RUN-007`, a trace that cannot be written,
   * ends the session.
   */
  run(capsule: string, objective: string, scope: CallScope): Promise<StepEnd>;
}

/** The capsule steps of a session that may spawn nothing. Every one of them fails, with the reason. */
export function noCapsuleSteps(roostUrl: string | undefined): CapsuleSteps {
  return {
    run: (capsule) =>
      Promise.resolve({
        passed: false,
        output: null,
        error: (roostUrl ?? "").trim() === ""
          ? "MURMUR_ROOST_URL is not set; capsule steps require mur-roost"
          : `capsule '${shownValue(capsule)}' is not in capabilities.spawn.allow`,
        final: true,
      }),
  };
}
