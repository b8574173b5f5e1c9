/**
 * A capsule inside another program: started, talked to and stopped without a process or a socket in between. What it
 * may do is what its manifest grants, exactly as under `mur run`.
 *
 * @module
 */
import { readVariable } from "../../base/environment_variable.ts";
import { MurError, type Warning } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { murmurHome, murmurHomeAt } from "../../base/murmur_home.ts";
import { hardenProcess } from "../../base/process_hardening.ts";
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "../../base/time_bounds.ts";
import { LAUNCH_TASK } from "../agent/task_origin.ts";
import { startComponents } from "../component/start_components.ts";
import { type FinalTaskState, type Frame, type FrameLog, isFinalState } from "./frame_log.ts";
import { runAgentSession, type ServingSession, type SessionOutcome } from "./run_session.ts";
import { planLaunch, stageSession } from "./stage_session.ts";
import type { TaskRegistry } from "./task_registry.ts";

/** Which capsule, and what its launch is given. Everything absent is as `mur run` has it. */
export interface CapsuleLaunch {
  /** Path of a `murmur.yaml`; default `murmur.yaml` in `cwd`. */
  readonly manifest?: string;
  /** An installed capsule instead of a manifest. */
  readonly capsule?: { readonly name: string; readonly version: string; readonly sha256?: string };
  /** Absolute directory that paths are taken against; default the current one. */
  readonly cwd?: string;
  /** Directory that holds `.murmur`; default `$HOME`. */
  readonly home?: string;
  /** Variables the launch reads; default those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Task the session begins with: a path or the text. */
  readonly task?: string;
  /** Context of the launch task. */
  readonly contextId?: string;
  /** Work folder of the agent. */
  readonly workdir?: string;
  /** Address of the door; default `127.0.0.1`. */
  readonly bind?: string;
  readonly taskAcceptance?: "none" | "single" | "queue";
  readonly afterTask?: "exit" | "sleep";
  readonly containment?: "advisory" | "scoped" | "sealed";
  readonly systemPrompt?: string;
  /** Whether the `.env` of the workspace is read; default true. */
  readonly useEnvFile?: boolean;
  readonly bounds?: TimeBounds;
  readonly onWarning?: (warning: Warning) => void;
  /** Lines of components and of the runtime that `mur run` prints on stderr. */
  readonly onDiagnostic?: (line: string) => void;
}

/** Something that happened: a frame of the session's log, or the loss of some. */
export type CapsuleEvent =
  | Frame
  /** Frames before this id are gone: the reader was more than 512 of them behind. */
  | { readonly type: "gap"; readonly firstAvailableId: number };

/** How a task ended. */
export interface TaskResult {
  readonly state: FinalTaskState;
  /** Text of the final status. */
  readonly message: string;
  /** The answer of a completed task; `null` when it is empty. */
  readonly response: string | null;
}

/** A task given to a running capsule. */
export interface CapsuleTask {
  readonly id: string;
  readonly contextId: string;
  /** Its events in order, ending with its final status. */
  readonly events: AsyncIterable<CapsuleEvent>;
  /** Settles when it has ended; never fails. */
  readonly result: Promise<TaskResult>;
  /** Answers the question of a task in `input-required`; `false` when it asks nothing. */
  reply(text: string): boolean;
  /** `false` when it has ended already. */
  cancel(): boolean;
}

/** A capsule that runs in this program. Disposing of it stops it. */
export interface RunningCapsule extends AsyncDisposable {
  readonly sessionId: string;
  /** `localhost:<port>` of its door. */
  readonly url: string;
  readonly name: string;
  readonly version: string;
  readonly workdir: string;
  /** Directory of its trace, logs and results. */
  readonly recordsDir: string;
  /** Events of the whole session from now on, until it ends. */
  readonly events: AsyncIterable<CapsuleEvent>;
  /**
   * Gives it a task. It counts as the operator's own: trusted, and before what others sent. A capsule without room for
   * it answers with a task in `rejected`.
   */
  send(text: string, options?: { readonly contextId?: string }): CapsuleTask;
  /** Ends it in order, as a first SIGTERM does. */
  stop(): Promise<SessionOutcome>;
  /** Settles when the session is over. @throws {MurError} When it could not go on. */
  readonly ended: Promise<SessionOutcome>;
}

/**
 * Starts an agent capsule and waits until its door serves.
 *
 * This process is closed to others of the same user from then on, since it holds the capsule's keys (Linux: not
 * dumpable, descriptors from 3 on close on exec).
 *
 * @throws {MurError} When the launch is refused, with the code `mur run` prints.
 */
export async function launchCapsule(launch: CapsuleLaunch): Promise<RunningCapsule> {
  hardenProcess();
  const bounds = launch.bounds ?? DEFAULT_TIME_BOUNDS;
  const variables = launch.env;
  const env = { get: variables === undefined ? readVariable : (name: string): string | undefined => variables[name] };
  const home = launch.home === undefined ? murmurHome(env) : murmurHomeAt(launch.home);
  const components = await startComponents({ home, bounds });
  const stop = new AbortController();
  const opened = Promise.withResolvers<ServingSession>();
  const run = async (): Promise<SessionOutcome> => {
    try {
      const plan = await planLaunch({
        cwd: launch.cwd ?? Deno.cwd(),
        env,
        home,
        bounds,
        source: launch.capsule === undefined
          ? { kind: "manifest", path: launch.manifest ?? "murmur.yaml" }
          : { kind: "installed", ...launch.capsule, sha256: launch.capsule.sha256 ?? null },
        storeRoot: null,
        task: launch.task ?? null,
        contextId: launch.contextId ?? null,
        resume: null,
        resumeMode: "full",
        forgetSession: false,
        workdir: launch.workdir ?? null,
        bind: launch.bind ?? "127.0.0.1",
        taskAcceptance: launch.taskAcceptance ?? null,
        afterTask: launch.afterTask ?? null,
        useEnvFile: launch.useEnvFile ?? true,
        containment: launch.containment ?? null,
        systemPrompt: launch.systemPrompt ?? null,
        spawned: null,
        warn: launch.onWarning ?? (() => {}),
        notice: launch.onDiagnostic ?? (() => {}),
      });
      if (plan.manifest.inference === null) {
        throw new MurError("E-IO-003", `${plan.manifest.name} is a script capsule, which takes no tasks`, {
          hint: "run it with mur run",
        });
      }
      return await runAgentSession(await stageSession(plan, components), {
        components,
        ready: opened.resolve,
        diagnostics: launch.onDiagnostic ?? (() => {}),
        stop: stop.signal,
      });
    } finally {
      await components.close();
    }
  };
  const ended = run();
  // A refused launch is thrown from here; a later failure is told by `ended` to whoever asks.
  ended.catch(opened.reject);
  return runningCapsule(await opened.promise, ended, () => stop.abort());
}

/** What events are read from. */
interface Followed {
  readonly tasks: TaskRegistry;
  readonly frames: FrameLog;
  /** Aborted when the session is over: one that cannot go on never closes its log. */
  readonly over: AbortSignal;
}

function runningCapsule(session: ServingSession, ended: Promise<SessionOutcome>, abort: () => void): RunningCapsule {
  const { frames, tasks } = session;
  const over = new AbortController();
  const end = () => over.abort();
  ended.then(end, end);
  const followed: Followed = { tasks, frames, over: over.signal };
  const stop = () => {
    abort();
    return ended;
  };
  return {
    sessionId: session.sessionId,
    url: session.url,
    name: session.name,
    version: session.version,
    workdir: session.workdir,
    recordsDir: session.recordsDir,
    get events() {
      return sessionEvents(followed, frames.lastId);
    },
    send: (text, { contextId } = {}) => sendTask(followed, text, contextId ?? null),
    stop,
    ended,
    async [Symbol.asyncDispose]() {
      await stop();
    },
  };
}

function sendTask(followed: Followed, text: string, contextId: string | null): CapsuleTask {
  const { tasks, frames } = followed;
  const from = frames.lastId;
  const { accepted, task } = tasks.offer({
    contextId,
    text,
    standing: LAUNCH_TASK,
    door: {
      messageId: newId("msg"),
      traceparent: null,
      submitter: null,
      referenceTaskIds: [],
      partKinds: ["text"],
    },
  });
  const result = async (): Promise<TaskResult> => {
    const refused: TaskResult = { state: "rejected", message: task.message ?? "", response: null };
    if (!accepted) return refused;
    for await (const event of taskEvents(followed, task.id, from)) {
      if (event.type === "status" && event.final) break;
    }
    const end = tasks.find(task.id, null)!;
    return { state: end.state as FinalTaskState, message: end.message ?? "", response: end.response };
  };
  return {
    id: task.id,
    contextId: task.contextId,
    events: accepted ? taskEvents(followed, task.id, from) : noEvents(),
    result: result(),
    reply: (answer) => tasks.reply(task.id, answer),
    cancel: () => tasks.cancel(task.id) !== null,
  };
}

async function* noEvents(): AsyncGenerator<CapsuleEvent, void> {}

/** Frames after `seen` as they come. What a slow reader has not taken stays in the log, whose size is bounded. */
async function* sessionEvents({ frames, over }: Followed, seen: number): AsyncGenerator<CapsuleEvent, void> {
  let wake: (() => void) | null = null;
  const moved = () => wake?.();
  const leave = frames.subscribe(moved);
  over.addEventListener("abort", moved);
  try {
    for (;;) {
      const { gap, frames: missed } = frames.replay(seen);
      if (gap !== null) yield { type: "gap", firstAvailableId: gap };
      for (const frame of missed) {
        seen = frame.id;
        yield frame;
      }
      if (frames.lastId > seen) continue;
      if (over.aborted) return;
      await new Promise<void>((resolve) => wake = resolve);
    }
  } finally {
    leave();
    over.removeEventListener("abort", moved);
  }
}

async function* taskEvents(followed: Followed, id: string, seen: number): AsyncGenerator<CapsuleEvent, void> {
  for await (const event of sessionEvents(followed, seen)) {
    if (event.type !== "gap" && event.taskId !== id) continue;
    yield event;
    if (event.type === "status" && event.final) return;
    // Its final status may be among what is lost.
    if (event.type === "gap" && isOver(followed, id)) return;
  }
}

/** Whether a task has ended and its final status is no longer to come. */
function isOver({ tasks, frames }: Followed, id: string): boolean {
  const state = tasks.find(id, null)?.state;
  if (state === undefined || !isFinalState(state) || tasks.running?.id === id) return false;
  return !frames.replay(0).frames.some((frame) => frame.type === "status" && frame.taskId === id && frame.final);
}
