/**
 * What `mur run` does once the component host is on its way (spec cli 12): stages the capsule, runs it to its end and says
 * how it ended.
 *
 * @module
 */
import { formatError, formatWarning } from "../base/errors.ts";
import type { ComponentRuntime } from "../runtime/component/component_runtime.ts";
import { explainScope } from "../runtime/session/explain_scope.ts";
import { hasSpawnerVariables, type LaunchOptions } from "../runtime/session/launch_options.ts";
import {
  runAgentSession,
  type ServingSession,
  type SessionOutcome,
  type SessionReady,
} from "../runtime/session/run_session.ts";
import type { SpawnedLaunch } from "../runtime/delegation/spawned_launch.ts";
import { absolutePath } from "../base/paths.ts";
import { planLaunch, type StagedSession, stageSession } from "../runtime/session/stage_session.ts";
import { scopeText } from "../runtime/session/scope_report.ts";
import type { RunFlags } from "./application.ts";
import type { CliContext, TextOutput } from "./context.ts";
import { reportFailure } from "./failure.ts";
import { RefusedLines } from "./refused_lines.ts";
import { terminalView } from "./terminal_view.ts";
import { TERMINATED, WindDown, type WindDownStep } from "./wind_down.ts";

/** The context of a run: lines its streams refuse are kept in the session's log. */
interface RunContext extends CliContext {
  readonly refused: RefusedLines;
}

function runContext(context: CliContext): RunContext {
  const refused = new RefusedLines();
  const stderr = refused.keptFrom(context.stderr);
  return {
    ...context,
    stdout: refused.keptFrom(context.stdout),
    stderr,
    warn: (warning) => void stderr.line(formatWarning(warning)),
    refused,
  };
}

/** Runs a capsule and answers the exit status. Every failure is reported here. */
export async function runCapsule(
  given: CliContext,
  flags: RunFlags,
  components: ComponentRuntime,
): Promise<number> {
  const context = runContext(given);
  try {
    return await runWith(context, flags, components, linesOf(context, flags));
  } catch (error) {
    return failedRun(context, flags, error);
  }
}

async function runWith(
  context: RunContext,
  flags: RunFlags,
  components: ComponentRuntime,
  lines: TextOutput | null,
): Promise<number> {
  const spawned = await spawnedLaunch(context, flags);
  // Before there is a session, and of a script capsule, nothing is to be wound down.
  let spawnerEnded: () => void = () => Deno.exit(TERMINATED);
  if (spawned?.lifeline) {
    const { watchLifeline } = await import("../runtime/delegation/lifeline.ts");
    watchLifeline(spawned.lifeline, () => spawnerEnded());
  }
  const plan = await planLaunch(launchOptions(context, flags, spawned));
  const staged = await withProgress(context, `preparing ${plan.manifest.name}`, () => stageSession(plan, components));
  if (staged.scriptComponent !== null) return await runScript(context, flags, staged, components, lines);
  const stop = new AbortController();
  const descent = new Descent(stop, context.bounds.teardown, Boolean(spawned?.lifeline));
  spawnerEnded = () => descent.spawnerEnded();
  let outcome: SessionOutcome;
  try {
    outcome = await runAgentSession(staged, {
      components,
      ready: (session) => announce(context, flags, session, lines),
      diagnostics: (line) => void context.stderr.line(line),
      stop: stop.signal,
    });
  } finally {
    descent.over();
  }
  if (flags.output === "text" && outcome.status === "ok" && outcome.text !== null) context.stdout.line(outcome.text);
  lines?.line(`status:  ${outcome.status}`);
  return outcome.error === null ? 0 : reportFailure(outcome.error, context);
}

/** Components are compiled before their first run, which takes seconds. */
async function withProgress<T>(context: CliContext, label: string, work: () => Promise<T>): Promise<T> {
  const progress = context.progress(label);
  try {
    return await work();
  } finally {
    progress.done();
  }
}

async function runScript(
  context: RunContext,
  flags: RunFlags,
  staged: StagedSession,
  components: ComponentRuntime,
  lines: TextOutput | null,
): Promise<number> {
  const guestOutput = flags.json || flags.output === "text" ? context.stderr : context.stdout;
  const { runScriptSession } = await import("../runtime/session/run_script.ts");
  const failure = await runScriptSession(staged, {
    components,
    ready: (session) => announce(context, flags, session, lines),
    diagnostics: (line) => void context.stderr.line(line),
    guestOutput: (stream, line) => void (stream === "stdout" ? guestOutput : context.stderr).line(line),
  });
  lines?.line(`status:  ${failure === null ? "ok" : "trapped"}`);
  return failure === null ? 0 : reportFailure(failure, context);
}

/** What another session launched this one with; `null` when an operator did. @throws {MurError} `E-RUN-019`, `E-RUN-020`. */
async function spawnedLaunch(context: CliContext, flags: RunFlags): Promise<SpawnedLaunch | null> {
  const grantOnInput = flags["spawn-grant-stdin"] ?? false;
  if (!grantOnInput && !hasSpawnerVariables(context.env)) return null;
  const { takeSpawnedLaunch } = await import("../runtime/delegation/spawned_launch.ts");
  return await takeSpawnedLaunch({
    env: context.env,
    grantOnInput,
    read: (buffer) => Deno.stdin.read(buffer),
    boundMs: context.bounds.spawnGrant,
  });
}

function launchOptions(context: CliContext, flags: RunFlags, spawned: SpawnedLaunch | null): LaunchOptions {
  const home = context.absoluteHome();
  const delegated = spawned !== null && spawned.approval !== null && flags.capsule !== undefined;
  return {
    cwd: delegated ? home.root : context.cwd,
    env: context.env,
    home,
    bounds: context.bounds,
    source: flags.capsule === undefined ? { kind: "manifest", path: flags.manifest ?? "murmur.yaml" } : {
      kind: "installed",
      name: flags.capsule,
      version: flags["capsule-version"]!,
      sha256: flags["capsule-sha256"] ?? null,
    },
    storeRoot: flags["store-root"] ?? null,
    task: flags.task ?? null,
    contextId: flags.context ?? null,
    resume: flags.resume ?? null,
    resumeMode: flags["resume-mode"] ?? "full",
    forgetSession: flags["forget-session"] ?? false,
    workdir: flags.workdir === undefined ? null : absolutePath(context.cwd, flags.workdir),
    bind: flags.bind ?? "127.0.0.1",
    taskAcceptance: flags["lifecycle-task-acceptance"] ?? null,
    afterTask: flags["lifecycle-after-task"] ?? null,
    useEnvFile: !(flags["no-env-file"] ?? false),
    containment: flags.containment ?? null,
    systemPrompt: flags["system-prompt"] ?? null,
    spawned,
    warn: context.warn,
    notice: (line) => void context.stderr.line(line),
  };
}

/** Prints what the capsule of a launch may do here (spec cli 12.3). */
export async function explainCapsule(
  context: CliContext,
  flags: RunFlags,
  components: ComponentRuntime,
): Promise<number> {
  const plan = await planLaunch(launchOptions(context, flags, await spawnedLaunch(context, flags)));
  const { report, refusal } = await explainScope(plan, await components.walls());
  context.stdout.line(flags.json ? JSON.stringify(report) : scopeText(report));
  if (refusal !== null) {
    context.stderr.line(`mur run would refuse this capsule:\n${formatError(refusal).replaceAll(/^/gm, "  ")}`);
  }
  return 0;
}

/** Says that a run failed before its session ended by itself. */
export function failedRun(context: CliContext, flags: RunFlags, error: unknown): number {
  linesOf(context, flags)?.line("status:  failed");
  return reportFailure(error, context);
}

/**
 * Where the lines for people go: stdout carries the answer alone under `--output text`, one JSON line under `--json`.
 */
function linesOf(context: CliContext, flags: RunFlags): TextOutput | null {
  return flags.json ? null : flags.output === "text" ? context.stderr : context.stdout;
}

/** Prints readiness (spec cli 12.1, 12.2) and, on a terminal, follows the session's text. */
function announce(
  context: RunContext,
  flags: RunFlags,
  session: SessionReady & Partial<Pick<ServingSession, "frames" | "tokens">>,
  lines: TextOutput | null,
): void {
  context.refused.keepIn(session.recordsDir);
  if (lines === null) {
    const tokens = flags["readiness-tokens"] ? session.tokens ?? null : null;
    const line = JSON.stringify({
      url: session.url,
      pid: Deno.pid,
      session_id: session.sessionId,
      name: session.name,
      version: session.version,
      workdir: session.workdir,
      ...(tokens === null ? {} : { tokens }),
    });
    if (tokens === null) context.stdout.line(line);
    // A line with tokens is never kept elsewhere when stdout refuses it (spec session 17.6).
    else context.stdout.write(`${line}\n`);
    return;
  }
  if (session.url !== "") lines.line(`murmur: url ${session.url}`);
  lines.line(`session: ${session.sessionId}`);
  if (flags.verbose) {
    lines.line(`workdir: ${session.workdir}`);
    lines.line(`manifest: ${session.name} v${session.version}`);
    if (session.driver !== "") lines.line(`driver: ${session.driver}`);
  }
  if (session.skills > 0) lines.line(`skills: ${session.skills} installed`);
  if (context.stdout.isTerminal && flags.output !== "text") {
    session.frames?.watch(terminalView({
      stdout: context.stdout,
      stderr: context.stderr,
      thinking: flags.verbose ?? false,
    }));
  }
}

/**
 * Brings a session down: the first SIGTERM and a closed lifeline end it in order; a SIGTERM too many, or a teardown that
 * takes too long, ends the process at once (spec session 17.3, 17.4).
 */
class Descent {
  readonly #stop: AbortController;
  readonly #boundMs: number;
  readonly #state: WindDown;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #onTerminate = () => this.#take(this.#state.terminated());

  constructor(stop: AbortController, boundMs: number, launched: boolean) {
    this.#state = new WindDown(launched);
    this.#stop = stop;
    this.#boundMs = boundMs;
    Deno.addSignalListener("SIGTERM", this.#onTerminate);
  }

  spawnerEnded(): void {
    this.#take(this.#state.spawnerEnded());
  }

  /** The session has ended. */
  over(): void {
    clearTimeout(this.#timer);
    Deno.removeSignalListener("SIGTERM", this.#onTerminate);
  }

  #take(step: WindDownStep): void {
    if (step.kind === "exit") Deno.exit(TERMINATED);
    if (step.kind !== "stop") return;
    this.#timer = setTimeout(() => Deno.exit(TERMINATED), this.#boundMs);
    this.#stop.abort(step.cause);
  }
}
