/**
 * A session known to the spawn daemon (roost seed "POST /register", spec roost 9). The credential it holds is in memory
 * and nowhere else, and nobody is ever handed it.
 *
 * @module
 */

/** What the daemon answers when a child is asked for. */
export type SpawnAnswer =
  | {
    readonly granted: true;
    /** For the child's standard input, and nothing else. */
    readonly approval: string;
    readonly name: string;
    readonly version: string;
    /** Hash of the judged artifact, lowercase hex. */
    readonly sha256: string;
  }
  /** The daemon's own sentence. */
  | { readonly granted: false; readonly kind: "refused"; readonly reason: string }
  /** It could not be asked, or answered with no verdict. */
  | { readonly granted: false; readonly kind: "failed"; readonly reason: string };

/** A registered session. */
export interface Registration {
  /** Base URL of the daemon, without a trailing slash. Children register there too. */
  readonly daemon: string;
  /** Asks whether a child may be launched. Never fails. */
  spawn(name: string, version: string, signal: AbortSignal): Promise<SpawnAnswer>;
  /** Tells the daemon that the session ended. Best effort: never fails, and is bounded. */
  deregister(outcome: "complete" | "failed"): Promise<void>;
}
