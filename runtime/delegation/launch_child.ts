/**
 * Launching a child, step by step (roost seed "Who launches what", spec roost 10). Both callers go through here: the
 * `delegate-task` tool and a plan's `capsule` step. A launch that fails at any step leaves no process, and before there was
 * one, no directory either.
 *
 * @module
 */
import { bareHalf } from "../../artifact/artifact_name.ts";
import { MurError, reasonOf } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { recordsGroup } from "../../base/murmur_home.ts";
import { RootedDir } from "../../base/rooted_dir.ts";
import { isRootedError } from "../../base/rooted_error.ts";
import { childArguments, childProgram } from "./child_command.ts";
import { childEnvironment } from "./child_environment.ts";
import type { ChildExit, ChildLaunch, ChildLaunchResult, ChildProcess, DelegatingSession } from "./child_launch.ts";
import { type PackedCapsule, readPackedCapsule } from "./packed_capsule.ts";
import { parseReadiness, type Readiness } from "./readiness_line.ts";
import type { SpawnAnswer } from "./registration.ts";
import { SpawnedProcess } from "./spawned_process.ts";
import type { SnapshotReport } from "./snapshot_report.ts";
import { deliverTask } from "./task_delivery.ts";
import { removeFolder, takeSnapshot } from "./workdir_snapshot.ts";

/** Most characters of a reason: it goes to the model, and may quote what the child said last. */
const MAX_REASON_CHARACTERS = 4_000;

const CANCELED = "the delegating task was cancelled";
const ENDED = "it ended before it reported itself ready";

/** What the daemon granted. */
type Grant = Extract<SpawnAnswer, { granted: true }>;

/** A folder made for the child, and what is in it. */
interface Prepared {
  readonly packed: PackedCapsule;
  readonly workdir: string;
  readonly snapshot: SnapshotReport | null;
}

/** Launches a child and gives it its task. Never fails: how far it got is in the answer. */
export async function launchChild(session: DelegatingSession, launch: ChildLaunch): Promise<ChildLaunchResult> {
  const failed = (reason: string, delegationId: string | null = null, sessionId: string | null = null) =>
    ({ status: "failed", delegationId, sessionId, reason: bounded(reason) }) as const;
  const { signal } = launch;
  if (signal.aborted) return failed(CANCELED);
  const grant = await session.registration.spawn(launch.capsule, launch.version, signal);
  if (signal.aborted) return failed(CANCELED);
  if (!grant.granted) {
    return grant.kind === "refused" ? { status: "refused", reason: grant.reason } : failed(grant.reason);
  }

  let prepared: Prepared;
  try {
    prepared = await prepare(session, launch, grant);
  } catch (cause) {
    return failed(signal.aborted ? CANCELED : told(cause));
  }
  const delegationId = newId("dlg");
  let process: SpawnedProcess;
  try {
    process = start(session, launch, { grant, prepared, delegationId });
  } catch (cause) {
    await removeFolder(prepared.workdir);
    return failed(`${launch.capsule} could not be started: ${told(cause)}`);
  }
  const ready = await readiness(process, launch, session.bounds.childLaunch);
  if (typeof ready === "string") {
    const exit = await process.end();
    if (signal.aborted) return failed(CANCELED, delegationId);
    const how = ready === ENDED ? ` (${exitWords(exit)})` : "";
    return failed(withLastWords(`${launch.capsule} could not be launched: ${ready}${how}`, process), delegationId);
  }
  const child = reported(session, launch, { prepared, delegationId, process, ready });
  launch.ready(child);
  const gone = goneSignal(process, session.bounds.childLastWords);
  const delivered = await deliverTask({
    url: child.url,
    token: child.doorToken,
    task: launch.task,
    traceparent: launch.traceparent,
    signal: AbortSignal.any([signal, gone]),
    bounds: session.bounds,
  });
  if (delivered.accepted) return { status: "started", child, taskId: delivered.taskId };
  const ended = gone.aborted;
  const exit = await process.end();
  if (signal.aborted) return failed(CANCELED, delegationId, child.sessionId);
  const why = ended ? `it ended first (${exitWords(exit)})` : delivered.reason;
  const reason = withLastWords(`${launch.capsule} did not accept its task: ${why}`, process);
  return failed(reason, delegationId, child.sessionId);
}

function exitWords({ code, signal }: ChildExit): string {
  return signal === null ? `exit status ${code}` : `ended by ${signal}`;
}

/** Steps 4 to 6: the child's manifest, its folder, and the copy it begins with. */
async function prepare(session: DelegatingSession, launch: ChildLaunch, grant: Grant): Promise<Prepared> {
  const packed = await readPackedCapsule(session.stores, { capsule: launch.capsule, ...grant }, session.env);
  const bare = bareHalf(launch.capsule);
  const workdir = makeFolder(session.recordsDir, bare);
  const snapshot = session.snapshots.includes(launch.capsule)
    ? await takeSnapshot({
      child: bare,
      source: session.workdir,
      target: workdir,
      // What is below the home is read by no agent, and so by none of its children.
      runtimeDirectories: [session.home.root, session.recordsDir, session.scratchDir],
      maxBytes: packed.workdirMaxBytes,
      signal: launch.signal,
    })
    : null;
  return { packed, workdir, snapshot };
}

/** The child's own folder, a fresh one for each delegation. */
function makeFolder(recordsDir: string, bare: string): string {
  using records = RootedDir.open(recordsDir, { symlinks: "refuse" });
  try {
    records.mkdir("children", { mode: 0o700 });
  } catch (error) {
    if (!isRootedError(error, "exist")) throw error;
  }
  const name = `children/${bare}-${crypto.getRandomValues(new Uint8Array(8)).toHex()}`;
  records.mkdir(name, { mode: 0o700 });
  return `${recordsDir}/${name}`;
}

/** Steps 7 to 9: the process, with what it is handed. */
function start(
  session: DelegatingSession,
  launch: ChildLaunch,
  { grant, prepared, delegationId }: { grant: Grant; prepared: Prepared; delegationId: string },
): SpawnedProcess {
  const { packed, workdir, snapshot } = prepared;
  const bare = bareHalf(launch.capsule);
  const program = childProgram(session.env, session.cwd);
  const environment = childEnvironment({
    held: session.env,
    parentAllow: session.envAllow,
    childAllow: packed.envAllow,
    daemon: session.registration.daemon,
    handle: {
      url: launch.reports ? `http://${session.url}` : null,
      sessionId: session.sessionId,
      contextId: launch.contextId,
      delegationId,
    },
    formationId: session.formationId,
  });
  const command = { ...grant, capsule: launch.capsule, workdir, authenticated: packed.authenticated };
  return new SpawnedProcess({
    command: program.command,
    args: [...program.args, ...childArguments(command)],
    env: { ...program.env, ...environment },
    cwd: workdir,
    input: `${grant.approval}\n${snapshot === null ? "" : `${JSON.stringify(snapshot)}\n`}`,
    bounds: session.bounds,
    nothingNew: session.hostTold,
    diagnostics: (line) => session.diagnostics(`[${bare}] ${line}`),
  });
}

/** Step 10: the readiness line, or why there is none. */
async function readiness(
  process: SpawnedProcess,
  { signal }: ChildLaunch,
  boundMs: number,
): Promise<Readiness | string> {
  const over = Promise.withResolvers<string>();
  const timer = setTimeout(
    () => over.resolve(`it did not report itself ready within ${boundMs / 1_000} s`),
    process.launchedAt + boundMs - performance.now(),
  );
  const abort = () => over.resolve(CANCELED);
  signal.addEventListener("abort", abort);
  try {
    if (signal.aborted) return CANCELED;
    const line = process.firstLine.then((text) => text === null ? ENDED : parseReadiness(text));
    return await Promise.race([line, over.promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

function reported(
  session: DelegatingSession,
  { capsule, version }: ChildLaunch,
  { prepared, delegationId, process, ready }: {
    prepared: Prepared;
    delegationId: string;
    process: SpawnedProcess;
    ready: Readiness;
  },
): ChildProcess {
  return {
    delegationId,
    sessionId: ready.sessionId,
    capsule,
    version,
    pid: process.pid,
    url: ready.url,
    doorToken: ready.doorToken,
    workdir: prepared.workdir,
    recordsDir: `${recordsGroup(session.home, prepared.workdir)}/${ready.sessionId}`,
    snapshot: prepared.snapshot,
    launchedAt: process.launchedAt,
    readyAt: performance.now(),
    exited: process.exited,
    stderrTail: () => process.stderrTail(),
    end: () => process.end(),
    kill: () => process.kill(),
  };
}

/**
 * Aborted once the process is gone: there is nobody to deliver to. What it answered before may still be to be read, by a
 * parent that was held up meanwhile.
 */
function goneSignal(process: SpawnedProcess, graceMs: number): AbortSignal {
  const gone = new AbortController();
  process.exited.then(() => setTimeout(() => gone.abort(), graceMs));
  return gone.signal;
}

/** Why a child came to nothing, with how it ended and what it said last: of too much the end, where the cause stands. */
function withLastWords(reason: string, process: SpawnedProcess): string {
  const said = process.stderrTail().filter((line) => line.trim() !== "").join("\n");
  if (said === "") return reason;
  const start = bounded(`${reason}; its last words:\n`);
  const room = Math.max(1, MAX_REASON_CHARACTERS - start.length - 1);
  return start + (said.length <= room ? said : `…${said.slice(-room)}`.toWellFormed());
}

function told(cause: unknown): string {
  return cause instanceof MurError ? cause.message : reasonOf(cause);
}

function bounded(text: string): string {
  return text.length <= MAX_REASON_CHARACTERS ? text : `${text.slice(0, MAX_REASON_CHARACTERS)}…`.toWellFormed();
}
