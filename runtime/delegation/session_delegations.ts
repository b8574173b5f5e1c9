/**
 * The delegations of one session: the one owner of its children from the moment they are ready to their outcomes (roost
 * seed "How the outcome arrives", spec roost 14, 16). What becomes of each is decided in `delegation_state.ts`.
 *
 * @module
 */
import { bareHalf } from "../../artifact/artifact_name.ts";
import { reasonOf } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json_value.ts";
import type { RootedDir } from "../../base/rooted_dir.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import { type CallScope, DispatchRefusal, type ResolvedTool, type ToolRun } from "../agent/tool_dispatch.ts";
import type { AttemptEndCause, HandedOffWork, Round } from "../session/handed_off_work.ts";
import type { DelegationResidue } from "../session/task_registry.ts";
import type { TraceWriter } from "../trace/trace_writer.ts";
import type { ChildExit, ChildLaunch, ChildLaunchResult, ChildProcess } from "./child_launch.ts";
import { readAnswer, readCompletion, resultPath, writeCompletion } from "./child_files.ts";
import type { CompletionRecord, ReadRecord } from "./completion_record.ts";
import {
  type DelegateTaskGrant,
  delegateTaskSchema,
  formatDelegateTaskResult,
  readDelegateTaskCall,
} from "./delegate_task.ts";
import {
  type DelegationState,
  end,
  type EndCause,
  hold,
  type Outcome,
  outcomeAtExit,
  type Receipt,
  receive,
  settle,
  STARTING,
} from "./delegation_state.ts";
import { outcomeBlock, outcomeFence, type OutcomeReport } from "./outcome_block.ts";

/** What the owner works with. */
export interface DelegationServices {
  readonly grant: DelegateTaskGrant;
  /** Launches a child (spec roost 10). */
  readonly launch: (launch: ChildLaunch) => Promise<ChildLaunchResult>;
  readonly trace: Pick<TraceWriter, "second">;
  /** The runtime directory, where long answers are kept for the tools. */
  readonly runtime: RootedDir;
  /** How long a child may run once it is ready, in seconds. */
  readonly deadlineSeconds: number;
  readonly bounds: Pick<TimeBounds, "delegationBackstop" | "reportedExit">;
  /** Tells the stream of a task that still runs how it goes. */
  readonly progress: (taskId: string, message: string) => void;
  /** `traceparent` of the task a call is made in; `null` without one. */
  readonly traceparentOf: (taskId: string) => string | null;
  /** A line for the operator. */
  readonly report: (text: string) => void;
}

/** Who made a delegation. */
type Origin = "tool" | "step";

interface Delegation {
  readonly taskId: string;
  readonly origin: Origin;
  readonly child: ChildProcess;
  state: DelegationState;
  /** Its completion was received, and its record is there. */
  reported: boolean;
  outcome: Outcome | null;
  /** For its block; `null` before the end and once it was delivered. */
  report: OutcomeReport | null;
  /** The `delegation` line is written. */
  recorded: boolean;
  readonly timers: Set<ReturnType<typeof setTimeout>>;
  readonly settled: PromiseWithResolvers<void>;
}

/** Most completions of tasks that are over of which a session knows that it received them. */
const MAX_RECEIVED = 65_536;

/** Longest delay of a timer, in milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** `MURMUR_DELEGATION_TIMEOUT_SECS` when it is a positive whole number, else what the manifest says. */
export function deadlineSeconds(variable: string | undefined, declared: number): number {
  const value = /^[0-9]{1,15}$/.test(variable ?? "") ? Number(variable) : 0;
  return value > 0 ? value : declared;
}

/** A delegation that holds its task, for a caller that waits for its answer itself. */
export interface StepDelegation {
  readonly child: ChildProcess;
  /** Id of the task at the child's door. */
  readonly taskId: string;
  /**
   * The step is over: writes how it went, ends the child and waits until it is gone. Nothing of that for a task that was
   * canceled, which does so itself.
   *
   * @param reason `null` on `completed`.
   */
  finish(outcome: "completed" | "failed" | "timed_out", reason: string | null): Promise<void>;
}

/** The children of one session. */
export class SessionDelegations implements HandedOffWork {
  readonly #services: DelegationServices;
  readonly #delegations = new Map<string, Delegation>();
  /** Those of tasks that are over whose completion was received: it may come again. The oldest first. */
  readonly #receivedBefore = new Set<string>();
  /** Called when a delegation of a task that waits has ended. */
  readonly #waits = new Map<string, () => void>();
  /** Of canceled tasks: what ran when they were. */
  readonly #canceled = new Map<string, readonly string[]>();
  /** Launches under way, by task. */
  readonly #launches = new Map<string, Set<Promise<unknown>>>();
  /** Signals of tasks that are listened to. */
  readonly #heard = new WeakSet<AbortSignal>();

  constructor(services: DelegationServices) {
    this.#services = services;
  }

  /** The `delegate-task` tool. */
  tool(): ResolvedTool {
    return {
      kind: "runtime",
      inputSchema: delegateTaskSchema(this.#services.grant),
      run: (input, scope) => this.#delegate(input, scope),
    };
  }

  /** A completion arrived at the door. */
  receive(delegationId: string): Receipt {
    const delegation = this.#delegations.get(delegationId);
    if (delegation === undefined) return this.#receivedBefore.has(delegationId) ? "received" : "not-awaited";
    const { state, receipt } = receive(delegation.state);
    delegation.state = state;
    if (receipt === "received" && state.phase !== "ended" && !delegation.reported) this.#hearReport(delegation);
    return receipt;
  }

  /**
   * A child that reported has only its own teardown left. It writes its record first: without one somebody else spoke for
   * it, whose word ends no child.
   */
  #hearReport(delegation: Delegation): void {
    if (this.#completionOf(delegation.child).kind === "missing") return;
    delegation.reported = true;
    this.#after(delegation, this.#services.bounds.reportedExit, { kind: "lingering" });
  }

  /** What a cancel or a stop reports as still running (spec door 10.3). */
  residue(): readonly DelegationResidue[] {
    return this.#live().map(({ child }) => ({
      kind: "delegation",
      delegation_id: child.delegationId,
      capsule: bareHalf(child.capsule),
      version: child.version,
      child_session_id: child.sessionId,
      child_workdir: child.workdir,
    }));
  }

  has(taskId: string): boolean {
    return this.#round(taskId).length > 0;
  }

  inFlight(taskId: string): readonly string[] {
    return this.#canceled.get(taskId) ?? this.#live(taskId).map(({ child }) => child.delegationId);
  }

  async round(taskId: string, signal: AbortSignal): Promise<Round | null> {
    const { progress } = this.#services;
    const started = performance.now();
    const outstanding = () => this.#round(taskId).filter(({ outcome }) => outcome === null).length;
    if (outstanding() > 0 && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const look = () => {
        const count = outstanding();
        if (count === 0) resolve();
        else progress(taskId, `waiting on delegate-task: ${count} delegation(s) outstanding`);
      };
      const aborted = () => resolve();
      this.#waits.set(taskId, look);
      signal.addEventListener("abort", aborted);
      look();
      await promise;
      this.#waits.delete(taskId);
      signal.removeEventListener("abort", aborted);
    }
    if (signal.aborted) return null;
    const round = this.#round(taskId);
    const reports = round.map(({ report }) => report!);
    for (const delegation of round) delegation.report = null;
    progress(taskId, `continuing with ${round.length} delegation outcome(s)`);
    return {
      text: reports.map(outcomeBlock).join("\n\n"),
      fence: [...new Set(reports.map(({ capsule }) => outcomeFence(capsule)))].join(", "),
      delegations: round.map(({ child }) => child.delegationId),
      waitedMs: Math.round(performance.now() - started),
    };
  }

  async endRunning(taskId: string, cause: AttemptEndCause): Promise<void> {
    const endAll = () => this.#of(taskId).forEach((delegation) => this.#end(delegation, cause));
    endAll();
    // A launch that a step no longer waits for is still being given up.
    await Promise.allSettled([...this.#launches.get(taskId) ?? []]);
    this.#launches.delete(taskId);
    endAll();
    const mine = this.#of(taskId);
    await Promise.all(mine.map(({ settled }) => settled.promise));
    for (const delegation of mine) if (delegation.state.cause?.kind === "canceled") this.#record(delegation);
  }

  leaveTask(taskId: string): void {
    for (const delegation of this.#of(taskId)) this.#leave(delegation);
    this.#canceled.delete(taskId);
  }

  /** The session is over: nothing of it may run on. */
  async close(): Promise<void> {
    const tasks = new Set([...this.#delegations.values()].map(({ taskId }) => taskId));
    await Promise.all([...tasks].map((taskId) => this.endRunning(taskId, { kind: "canceled" })));
    for (const taskId of tasks) this.leaveTask(taskId);
  }

  /**
   * Starts a child for a caller that reads its answer at its door.
   *
   * @returns What the daemon or the launch said instead.
   */
  async startStep(
    call: { readonly capsule: string; readonly version: string; readonly task: string },
    scope: Pick<CallScope, "taskId" | "contextId" | "signal">,
  ): Promise<StepDelegation | { readonly reason: string; readonly refused: boolean }> {
    const { result, delegation } = await this.#launch("step", call, scope);
    if (result.status !== "started") return { reason: result.reason, refused: result.status === "refused" };
    return {
      child: result.child,
      taskId: result.taskId,
      finish: (outcome, reason) => this.#finishStep(delegation!, outcome, reason),
    };
  }

  async #finishStep(
    delegation: Delegation,
    outcome: "completed" | "failed" | "timed_out",
    reason: string | null,
  ): Promise<void> {
    // A task that was canceled meanwhile ends the child itself and says so.
    if (delegation.state.cause?.kind === "canceled") return;
    const { child } = delegation;
    delegation.recorded = true;
    this.#services.trace.second.write("delegation", {
      ...named(child),
      delegation_id: child.delegationId,
      child_session_id: child.sessionId,
      duration_ms: Math.round(performance.now() - child.launchedAt),
      outcome,
      reason: outcome === "completed" ? null : reason,
    });
    this.#end(delegation, { kind: "step-over" });
    await delegation.settled.promise;
  }

  async #delegate(input: JsonObject, scope: CallScope): Promise<ToolRun> {
    const call = readDelegateTaskCall(input, this.#services.grant);
    if (typeof call === "string") throw new DispatchRefusal(call);
    const { result } = await this.#launch("tool", call, scope);
    if (result.status === "refused") throw new DispatchRefusal(result.reason);
    const started = result.status === "started";
    const text = formatDelegateTaskResult({
      delegationId: started ? result.child.delegationId : result.delegationId,
      sessionId: started ? result.child.sessionId : result.sessionId,
      capsule: call.capsule,
      version: call.version,
      end: started ? { status: "started", workdir: result.child.workdir } : { status: "failed", reason: result.reason },
    });
    return { passed: started, text, metadata: [] };
  }

  async #launch(
    origin: Origin,
    call: { readonly capsule: string; readonly version: string; readonly task: string },
    scope: Pick<CallScope, "taskId" | "contextId" | "signal">,
  ): Promise<{ readonly result: ChildLaunchResult; readonly delegation: Delegation | null }> {
    const launch = this.#launchNow(origin, call, scope);
    const under = this.#launches.get(scope.taskId) ?? new Set();
    this.#launches.set(scope.taskId, under.add(launch));
    try {
      return await launch;
    } finally {
      under.delete(launch);
    }
  }

  async #launchNow(
    origin: Origin,
    { capsule, version, task }: { readonly capsule: string; readonly version: string; readonly task: string },
    { taskId, contextId, signal }: Pick<CallScope, "taskId" | "contextId" | "signal">,
  ): Promise<{ readonly result: ChildLaunchResult; readonly delegation: Delegation | null }> {
    const begun = performance.now();
    this.#hear(taskId, signal);
    let delegation: Delegation | null = null as Delegation | null;
    let result = await this.#services.launch({
      capsule,
      version,
      task,
      contextId,
      reports: origin === "tool",
      traceparent: this.#services.traceparentOf(taskId),
      signal,
      ready: (child) => delegation = this.#enter(origin, taskId, child),
    });
    if (result.status === "failed" && origin === "tool" && delegation !== null && !signal.aborted) {
      // One that is over already held its task, though it was gone before its door's answer could be read.
      const record = delegation.state.received ? null : this.#completionOf(delegation.child);
      if (record === null || (record.kind === "record" && record.record.status === "ok")) {
        result = { status: "started", child: delegation.child, taskId: "" };
      }
    }
    if (result.status === "started") {
      delegation ??= this.#enter(origin, taskId, result.child);
      this.#hold(delegation, signal);
      return { result, delegation };
    }
    if (delegation !== null) this.#forget(delegation);
    this.#services.trace.second.write("delegation", {
      capsule: bareHalf(capsule),
      version,
      delegation_id: result.status === "refused" ? null : result.delegationId,
      child_session_id: result.status === "refused" ? null : result.sessionId,
      duration_ms: Math.round(performance.now() - begun),
      outcome: result.status,
      reason: result.reason,
    });
    return { result, delegation: null };
  }

  /** A cancel ends everything of its task at once, whatever the task is doing. */
  #hear(taskId: string, signal: AbortSignal): void {
    if (this.#heard.has(signal)) return;
    this.#heard.add(signal);
    signal.addEventListener("abort", () => {
      const live = this.#live(taskId);
      this.#canceled.set(taskId, live.map(({ child }) => child.delegationId));
      for (const delegation of this.#of(taskId)) this.#end(delegation, { kind: "canceled" });
    }, { once: true });
  }

  /** The child reported itself ready. It may report its end before its task is known to be delivered. */
  #enter(origin: Origin, taskId: string, child: ChildProcess): Delegation {
    const delegation: Delegation = {
      taskId,
      origin,
      child,
      state: STARTING,
      reported: false,
      outcome: null,
      report: null,
      recorded: false,
      timers: new Set(),
      settled: Promise.withResolvers(),
    };
    this.#delegations.set(child.delegationId, delegation);
    this.#services.trace.second.write("delegation_start", {
      delegation_id: child.delegationId,
      ...named(child),
      child_session_id: child.sessionId,
      child_workdir: child.workdir,
      ...(child.snapshot === null ? {} : { workdir_snapshot: { ...child.snapshot } }),
    });
    return delegation;
  }

  #hold(delegation: Delegation, signal: AbortSignal): void {
    const { deadlineSeconds: seconds, bounds } = this.#services;
    const { child } = delegation;
    delegation.state = hold(delegation.state);
    void child.exited.then((exit) => this.#settle(delegation, exit));
    if (delegation.origin === "tool") {
      const now = performance.now();
      const watchMs = seconds * 1_000;
      const backstopMs = watchMs + bounds.delegationBackstop;
      this.#after(delegation, child.readyAt + watchMs - now, { kind: "watch", seconds });
      this.#after(delegation, child.launchedAt + backstopMs - now, {
        kind: "backstop",
        seconds: Math.round(backstopMs / 1_000),
      });
    }
    if (!signal.aborted) return;
    // Canceled at the very moment its task was delivered.
    delegation.state = end(delegation.state, { kind: "canceled" });
    void child.end();
  }

  /** A child that came to nothing before it held its task: its call says so, and nobody waits for it. */
  #forget(delegation: Delegation): void {
    this.#delegations.delete(delegation.child.delegationId);
    for (const timer of delegation.timers) clearTimeout(timer);
    delegation.settled.resolve();
  }

  /** Nobody asks for an outcome any more: a session that goes on keeps no more of it than its door needs. */
  #leave({ child: { delegationId }, state }: Delegation): void {
    this.#delegations.delete(delegationId);
    if (!state.received) return;
    this.#receivedBefore.add(delegationId);
    if (this.#receivedBefore.size <= MAX_RECEIVED) return;
    const [oldest] = this.#receivedBefore;
    this.#receivedBefore.delete(oldest!);
  }

  #after(delegation: Delegation, delayMs: number, cause: EndCause): void {
    const timer = setTimeout(() => {
      delegation.timers.delete(timer);
      this.#end(delegation, cause);
    }, Math.min(Math.max(0, delayMs), MAX_TIMER_MS));
    delegation.timers.add(timer);
  }

  #end(delegation: Delegation, cause: EndCause): void {
    const before = delegation.state;
    delegation.state = end(before, cause);
    // Also one whose launch still waits for its door: having reported, it may never answer there.
    if (before.phase !== "ending" && delegation.state.phase === "ending") void delegation.child.end();
  }

  #settle(delegation: Delegation, exit: ChildExit): void {
    const { child } = delegation;
    for (const timer of delegation.timers) clearTimeout(timer);
    const record = this.#completionOf(child);
    const outcome = outcomeAtExit(delegation.state, {
      exit,
      stderrTail: child.stderrTail(),
      record,
      ranMs: Math.round(exit.at - child.launchedAt),
    });
    delegation.state = settle(delegation.state, outcome);
    delegation.outcome = outcome;
    this.#writeReport(delegation, outcome, record);
    if (delegation.origin === "tool") {
      delegation.report = {
        delegationId: child.delegationId,
        ...named(child),
        sessionId: child.sessionId,
        status: outcome.status,
        durationMs: outcome.durationMs,
        workdir: child.workdir,
        detail: outcome.detail,
        answer: readAnswer(child.recordsDir, this.#services.runtime, child.delegationId),
      };
    }
    // What a cancel ended is recorded behind the cancel itself; a step records its own.
    if (delegation.origin === "tool" && delegation.state.cause?.kind !== "canceled") this.#record(delegation);
    delegation.settled.resolve();
    this.#waits.get(delegation.taskId)?.();
  }

  #completionOf(child: ChildProcess): ReadRecord {
    try {
      return readCompletion(child.recordsDir, child);
    } catch (cause) {
      return { kind: "unreadable", reason: reasonOf(cause) };
    }
  }

  /** Writes down what is left to be said of a child that is gone. */
  #writeReport({ child }: Delegation, outcome: Outcome, record: ReadRecord): void {
    const { report } = outcome;
    let written: CompletionRecord;
    if (report.kind === "none") return;
    if (report.kind === "deliver") {
      if (record.kind !== "record") return;
      const { delivery_error: _error, ...rest } = record.record;
      written = { ...rest, delivered: true };
    } else {
      const result = resultPath(child.recordsDir);
      written = {
        delegation_id: child.delegationId,
        capsule_name: bareHalf(child.capsule),
        capsule_version: child.version,
        session_id: child.sessionId,
        status: report.status,
        ...(result === null ? {} : { result_path: result }),
        workdir: child.workdir,
        duration_ms: outcome.durationMs,
        detail: report.detail,
        reported_by: "launcher",
        delivered: report.delivered,
      };
    }
    try {
      writeCompletion(child.recordsDir, written);
    } catch (cause) {
      this.#services.report(
        `the completion of delegation ${child.delegationId} could not be written: ${reasonOf(cause)}`,
      );
    }
  }

  /** Writes the `delegation` line, once. */
  #record(delegation: Delegation): void {
    const { child, outcome } = delegation;
    if (delegation.recorded || outcome === null) return;
    delegation.recorded = true;
    this.#services.trace.second.write("delegation", {
      ...named(child),
      delegation_id: child.delegationId,
      child_session_id: child.sessionId,
      duration_ms: outcome.durationMs,
      outcome: outcome.status,
      reason: outcome.reason,
    });
  }

  #of(taskId: string): Delegation[] {
    return [...this.#delegations.values()].filter((delegation) =>
      delegation.taskId === taskId && delegation.state.phase !== "starting"
    );
  }

  /** Children that hold their task and are not gone; not that of a step that is over. */
  #live(taskId?: string): Delegation[] {
    return [...this.#delegations.values()].filter(({ taskId: owner, state, recorded }) =>
      (taskId === undefined || owner === taskId) && !recorded && (state.phase === "running" || state.phase === "ending")
    );
  }

  /** Delegations of a task whose outcome it was not given, in id order. */
  #round(taskId: string): Delegation[] {
    return this.#of(taskId)
      .filter(({ origin, outcome, report }) => origin === "tool" && (outcome === null || report !== null))
      .sort((a, b) => a.child.delegationId < b.child.delegationId ? -1 : 1);
  }
}

function named({ capsule, version }: ChildProcess): { readonly capsule: string; readonly version: string } {
  return { capsule: bareHalf(capsule), version };
}
