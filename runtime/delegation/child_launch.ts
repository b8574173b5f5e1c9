/**
 * What launching a child takes and gives (spec roost 10): the words both callers share, the `delegate-task` tool and a
 * plan's `capsule` step. `launch_child.ts` does it.
 *
 * @module
 */
import type { ArtifactStore } from "../../artifact/store.ts";
import type { MurmurHome } from "../../base/murmur_home.ts";
import type { ExitStatus } from "../../base/piped_process.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import type { Registration } from "./registration.ts";
import type { SnapshotReport } from "./snapshot_report.ts";

/** The session that hands work over; one for its whole life. */
export interface DelegatingSession {
  readonly sessionId: string;
  /** `host:port` of its own door. */
  readonly url: string;
  readonly home: MurmurHome;
  /** Its records directory: children's folders lie below it. */
  readonly recordsDir: string;
  /** Its scratch directory. */
  readonly scratchDir: string;
  readonly workdir: string;
  /** Directory a relative `MURMUR_MUR_BINARY` is taken against; absolute. */
  readonly cwd: string;
  /** Where the child's packed manifest is read; the artifact has to have the approved hash. */
  readonly stores: readonly ArtifactStore[];
  /** What this process holds, its `.env` included: `PATH`, `HOME` and the variables both sides declare are taken from it. */
  readonly env: { get(name: string): string | undefined };
  /** Its own `capabilities.env.allow`. */
  readonly envAllow: readonly string[];
  /** Its own `capabilities.spawn.workdir_snapshot`, full names. */
  readonly snapshots: readonly string[];
  readonly formationId: string | null;
  readonly registration: Registration;
  readonly bounds: TimeBounds;
  /** What this session told about the host; a child that says the same says nothing new. */
  readonly hostTold: ReadonlySet<string>;
  /** Lines for stderr: what children say there. */
  readonly diagnostics: (line: string) => void;
}

/** One delegation to be started. */
export interface ChildLaunch {
  /** Full name, an entry of `capabilities.spawn.allow`. */
  readonly capsule: string;
  readonly version: string;
  /** All the child is told. */
  readonly task: string;
  /** Conversation of the calling task. */
  readonly contextId: string;
  /** Whether the child is given this session's door to report to; a plan's step reads the answer itself. */
  readonly reports: boolean;
  readonly traceparent: string | null;
  /** Aborted: the launch is given up where it stands; the child is ended and reaped before the launch answers. */
  readonly signal: AbortSignal;
  /** Called once the child reported itself ready, before its task is delivered: `delegation_start` is due. */
  readonly ready: (child: ChildProcess) => void;
}

/** How far a launch got. */
export type ChildLaunchResult =
  /** The daemon said no, in this sentence. Nothing was made. */
  | { readonly status: "refused"; readonly reason: string }
  /** It came to nothing; no process of it is left. */
  | {
    readonly status: "failed";
    /** `null`: no process was started. */
    readonly delegationId: string | null;
    /** `null`: the child did not report itself ready. */
    readonly sessionId: string | null;
    readonly reason: string;
  }
  /** It holds its task. */
  | {
    readonly status: "started";
    readonly child: ChildProcess;
    /** Id of the task at the child's door. */
    readonly taskId: string;
  };

/** How a child's process ended. */
export interface ChildExit extends ExitStatus {
  /** On the clock of `performance.now()`. */
  readonly at: number;
}

/** A child that reported itself ready. */
export interface ChildProcess {
  readonly delegationId: string;
  /** The child's own session. */
  readonly sessionId: string;
  /** Full name. */
  readonly capsule: string;
  readonly version: string;
  readonly pid: number;
  /** `host:port` of its door. */
  readonly url: string;
  /** Token of its door's operator; `null` at a public door. */
  readonly doorToken: string | null;
  /** Its work folder, absolute. */
  readonly workdir: string;
  /** Its records directory, absolute: `completion.json`, `out/result.txt`. */
  readonly recordsDir: string;
  /** The copy it began with; `null` without one. */
  readonly snapshot: SnapshotReport | null;
  /** When the process was started, on the clock of `performance.now()`. */
  readonly launchedAt: number;
  /** When it reported itself ready, on the same clock: the child watch counts from here. */
  readonly readyAt: number;
  /** Settles when its process is gone and reaped; never fails. */
  readonly exited: Promise<ChildExit>;
  /** The last lines it wrote to stderr, oldest first. */
  stderrTail(): readonly string[];
  /**
   * Ends it: `SIGTERM`, the grace, `SIGKILL`. Settles when it is gone and reaped; a second call joins the first. Several
   * children are ended at once by calling this of each before waiting for any.
   */
  end(): Promise<ChildExit>;
  /** Kills it with `SIGKILL` at once. */
  kill(): Promise<ChildExit>;
}
