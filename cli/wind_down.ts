/**
 * What ends a run from outside: `SIGTERM`, and the closed lifeline of a delegated child (spec session 17.3, 17.4). The state
 * is pure; {@linkcode WindDown} is told what came and says what to do.
 *
 * @module
 */

/** Exit status of a run cut short by a signal (spec cli 1.3). */
export const TERMINATED = 143;

/** Why a session winds down: the reason of its stop signal. */
export type WindDownCause = "terminated" | "spawner_ended";

/** What is to be done. */
export type WindDownStep =
  /** End in order, and be done within the bound. */
  | { readonly kind: "stop"; readonly cause: WindDownCause }
  /** Exit at once with {@linkcode TERMINATED}. */
  | { readonly kind: "exit" }
  | { readonly kind: "nothing" };

/** One run's way down. */
export class WindDown {
  #stopped = false;
  #signals = 0;
  #launched: boolean;

  /**
   * @param launched By another session, which is there. Where a service manager tells every process to end, the launcher
   * tells it once more. That must not cut it short: the launcher bounds it.
   */
  constructor(launched: boolean) {
    this.#launched = launched;
  }

  /**
   * A `SIGTERM` came. The second one ends the process, with a launcher the third; one after a closed lifeline is still the
   * first.
   */
  terminated(): WindDownStep {
    this.#signals++;
    return this.#signals > (this.#launched ? 2 : 1) ? { kind: "exit" } : this.#stop("terminated");
  }

  /** The launching process is gone. Once the session winds down this changes nothing. */
  spawnerEnded(): WindDownStep {
    this.#launched = false;
    return this.#stop("spawner_ended");
  }

  #stop(cause: WindDownCause): WindDownStep {
    if (this.#stopped) return { kind: "nothing" };
    this.#stopped = true;
    return { kind: "stop", cause };
  }
}
