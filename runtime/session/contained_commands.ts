/**
 * Starting the commands of a session behind their walls: the plan of the launch, the session's network, and the helper
 * that carries both out (spec containment 9.1, 13, 14.2, 19).
 *
 * @module
 */
import type { NetworkRule } from "../../artifact/network_rules.ts";
import { reasonOf } from "../../base/errors.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import { limitReached } from "../../sandbox/cgroup_scope.ts";
import { makeControlDirectory } from "../../sandbox/confine_control.ts";
import { type ConfinedCommand, type ConfinedStart, startConfinedCommand } from "../../sandbox/confined_command.ts";
import type { JoinRecord } from "../../sandbox/confine_records.ts";
import { unservedPorts } from "../../sandbox/egress_policy.ts";
import { MAX_EGRESS_PORTS } from "../../sandbox/network_keeper.ts";
import type { CommandEnd } from "../../sandbox/running_command.ts";
import { SessionNetwork } from "../../sandbox/session_network.ts";
import type { CommandContainment, ContainedProgram } from "./command_containment.ts";

/** What the commands of a session are started with. */
export interface ContainedCommandsOptions {
  readonly containment: CommandContainment;
  /** Path of `mur-confine`. */
  readonly helper: string;
  /** The session's own directory of control sockets. */
  readonly controlDirectory: string;
  /** The capsule's `network.allow`. */
  readonly rules: readonly NetworkRule[];
  readonly bounds: TimeBounds;
  /** Takes text for stderr and the bootstrap log. */
  readonly report: (text: string) => void;
}

/** What one command adds. */
export type CommandStreams = Pick<ConfinedStart, "env" | "input" | "keep" | "spoolDir">;

/** Starts the commands of one session. */
export class ContainedCommands implements AsyncDisposable {
  readonly containment: CommandContainment;
  readonly #options: ContainedCommandsOptions;
  readonly #stop = new AbortController();
  /** `null`: none was opened yet, or it could not be and the next command tries again. */
  #network: Promise<SessionNetwork> | null = null;

  /**
   * Begins to open the network, which resolves names, and waits for nothing.
   *
   * @throws {MurError} `E-IO-…` when the directory of control sockets can't be used.
   */
  constructor(options: ContainedCommandsOptions) {
    this.containment = options.containment;
    this.#options = options;
    makeControlDirectory(options.controlDirectory);
    if (this.containment.plan.tier === "env") return;
    const unserved = unservedPorts(options.rules);
    if (unserved.length > 0) {
      options.report(
        `network.allow: the relay of commands listens on ${MAX_EGRESS_PORTS} ports, the lowest; ` +
          `none of them reaches ${unserved.length === 1 ? "port" : "ports"} ${unserved.join(", ")}`,
      );
    }
    // What fails here fails the command that needs it.
    this.#openNetwork().catch(() => {});
  }

  /**
   * Starts a program.
   *
   * @param signal Gives up waiting for the network; a program that runs is not its business.
   * @throws {MurError} `E-CAP-005` without a network, `E-IO-…` for a trusted name that is not held any more, records that
   * can't be passed on or a helper that can't be used.
   * @throws The reason of `signal`.
   */
  async start(
    program: ContainedProgram,
    streams: CommandStreams,
    signal: AbortSignal | undefined,
  ): Promise<ConfinedCommand> {
    const join = this.containment.plan.tier === "env" ? null : await unlessAborted(this.#join(), signal);
    const { helper, controlDirectory, bounds } = this.#options;
    const before = this.containment.counters();
    const running = startConfinedCommand({
      ...streams,
      helper,
      controlDirectory,
      records: this.containment.records(program, join),
      connectMs: bounds.confineStart,
    });
    if (before === null) return running;
    const attributed = (end: CommandEnd): CommandEnd =>
      end.resourceLimit !== null || end.failure !== null
        ? end
        : { ...end, resourceLimit: limitReached(before, this.containment.counters() ?? before) };
    return { ...running, end: running.end.then(attributed) };
  }

  /** Ends the network: what still runs in it reaches nothing any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    const network = await this.#network?.catch(() => null);
    await network?.[Symbol.asyncDispose]();
  }

  async #join(): Promise<JoinRecord> {
    return await (await this.#openNetwork()).join();
  }

  #openNetwork(): Promise<SessionNetwork> {
    return this.#network ??= this.#open().catch((cause) => {
      this.#network = null;
      throw cause;
    });
  }

  async #open(): Promise<SessionNetwork> {
    const { helper, controlDirectory, rules, bounds, report } = this.#options;
    const network = await SessionNetwork.open({ helper, controlDirectory, rules, bounds }, this.#stop.signal);
    for (const line of network.unanswered) report(`network.allow: ${line}`);
    return network;
  }
}

/** Waits for something unless the signal aborts. @throws Its reason. */
async function unlessAborted<T>(what: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await what;
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(new Error(`canceled: ${reasonOf(signal.reason)}`));
  signal.addEventListener("abort", abort);
  if (signal.aborted) abort();
  try {
    return await Promise.race([what, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
    // Whoever lost the race may still fail.
    aborted.promise.catch(() => {});
    what.catch(() => {});
  }
}
