/**
 * `mur run` (spec cli 12): stages a capsule, runs it to its end and says how it ended.
 *
 * @module
 */
import { DEFAULT_LIMITS } from "../artifact/manifest/capabilities_block.ts";
import { formatWarning } from "../base/errors.ts";
import { hardenProcess } from "../base/process_hardening.ts";
import { confineHelper } from "../sandbox/confine_helper.ts";
import type { ComponentRuntime } from "../runtime/component/component_runtime.ts";
import { createComponentRuntime } from "../runtime/component/create_component_runtime.ts";
import { componentHostScript } from "../runtime/component/host_program.ts";
import type { LaunchOptions } from "../runtime/session/launch_options.ts";
import { runScriptSession } from "../runtime/session/run_script.ts";
import { runAgentSession, type SessionOutcome, type SessionReady } from "../runtime/session/run_session.ts";
import { planLaunch, planScope, type StagedSession, stageSession } from "../runtime/session/stage_session.ts";
import { scopeText } from "../runtime/session/scope_report.ts";
import type { RunFlags } from "./application.ts";
import type { CliContext, TextOutput } from "./context.ts";
import { reportFailure } from "./failure.ts";
import { RefusedLines } from "./refused_lines.ts";
import { terminalView } from "./terminal_view.ts";
import { UsageError } from "./usage_error.ts";

/** Exit status of a run cut short by a signal (spec cli 1.3). */
const TERMINATED = 143;

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

/** Runs a capsule. */
export async function run(given: CliContext, flags: RunFlags): Promise<number> {
  const context = runContext(given);
  checkFlags(flags);
  // Before anything is read that another process of this user must not see.
  hardenProcess();
  const json = flags.json ?? false;
  // Where the lines for people go: stdout carries the answer alone under --output text, one JSON line under --json.
  const lines: TextOutput | null = json ? null : flags.output === "text" ? context.stderr : context.stdout;
  if (flags["explain-scope"]) return await explainScope(context, flags);
  // The very first act: the component host warms while everything else is read and judged (spec session 3.1).
  const components = await startComponents(context);
  try {
    return await runWith(context, flags, components, lines);
  } catch (error) {
    lines?.line("status:  failed");
    return reportFailure(error, context);
  } finally {
    await components.close();
  }
}

async function runWith(
  context: RunContext,
  flags: RunFlags,
  components: ComponentRuntime,
  lines: TextOutput | null,
): Promise<number> {
  const plan = await planLaunch(launchOptions(context, flags));
  const staged = await stageSession(plan, components);
  if (staged.scriptComponent !== null) return await runScript(context, flags, staged, components, lines);
  const stop = new AbortController();
  const disarm = windDownOnTerminate(stop, context.bounds.teardown);
  let outcome: SessionOutcome;
  try {
    outcome = await runAgentSession(staged, {
      components,
      ready: (session) => announce(context, flags, session, lines),
      diagnostics: (line) => void context.stderr.line(line),
      stop: stop.signal,
    });
  } finally {
    disarm();
  }
  if (flags.output === "text" && outcome.status === "ok" && outcome.text !== null) context.stdout.line(outcome.text);
  lines?.line(`status:  ${outcome.status}`);
  return outcome.error === null ? 0 : reportFailure(outcome.error, context);
}

async function runScript(
  context: RunContext,
  flags: RunFlags,
  staged: StagedSession,
  components: ComponentRuntime,
  lines: TextOutput | null,
): Promise<number> {
  const guestOutput = flags.json || flags.output === "text" ? context.stderr : context.stdout;
  const failure = await runScriptSession(staged, {
    components,
    ready: (session) => announce(context, flags, session, lines),
    diagnostics: (line) => void context.stderr.line(line),
    guestOutput: (stream, line) => void (stream === "stdout" ? guestOutput : context.stderr).line(line),
  });
  lines?.line(`status:  ${failure === null ? "ok" : "trapped"}`);
  return failure === null ? 0 : reportFailure(failure, context);
}

/** Refuses combinations the parser cannot judge (spec cli 12). @throws {UsageError} */
function checkFlags(flags: RunFlags): void {
  const needs = (given: unknown, flag: string, other: unknown, otherFlag: string) => {
    if (given !== undefined && other === undefined) throw new UsageError(`${flag} needs ${otherFlag}`);
  };
  const excludes = (given: unknown, flag: string, other: unknown, otherFlag: string) => {
    if (given !== undefined && other !== undefined) throw new UsageError(`${flag} cannot be used with ${otherFlag}`);
  };
  needs(flags.capsule, "--capsule", flags["capsule-version"], "--capsule-version");
  needs(flags["capsule-version"], "--capsule-version", flags.capsule, "--capsule");
  needs(flags["capsule-sha256"], "--capsule-sha256", flags.capsule, "--capsule");
  needs(flags["store-root"], "--store-root", flags.capsule, "--capsule");
  needs(flags["resume-mode"], "--resume-mode", flags.resume, "--resume");
  needs(flags["forget-session"], "--forget-session", flags.context, "--context");
  excludes(flags.capsule, "--capsule", flags.manifest, "--manifest");
  excludes(flags.output, "--output", flags.json, "--json");
  excludes(flags["forget-session"], "--forget-session", flags.resume, "--resume");
}

function launchOptions(context: CliContext, flags: RunFlags): LaunchOptions {
  return {
    cwd: context.cwd,
    env: context.env,
    home: context.absoluteHome(),
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
    workdir: flags.workdir ?? null,
    bind: flags.bind ?? "127.0.0.1",
    taskAcceptance: flags["lifecycle-task-acceptance"] ?? null,
    afterTask: flags["lifecycle-after-task"] ?? null,
    useEnvFile: !(flags["no-env-file"] ?? false),
    containment: flags.containment ?? null,
    systemPrompt: flags["system-prompt"] ?? null,
    warn: context.warn,
    notice: (line) => void context.stderr.line(line),
  };
}

async function startComponents(context: CliContext): Promise<ComponentRuntime> {
  const [helper, hostScript] = await Promise.all([confineHelper(), componentHostScript()]);
  return createComponentRuntime({
    compiledDirectory: context.absoluteHome().compiled,
    bounds: context.bounds,
    limits: { ...DEFAULT_LIMITS, deadlineDeclared: false },
    confineHelper: helper,
    hostScript,
  });
}

async function explainScope(context: CliContext, flags: RunFlags): Promise<number> {
  const plan = await planLaunch(launchOptions(context, flags));
  const report = planScope(plan, []);
  context.stdout.line(flags.json ? JSON.stringify(report) : scopeText(report));
  return 0;
}

/** Prints readiness (spec cli 12.1, 12.2) and, on a terminal, follows the session's text. */
function announce(context: RunContext, flags: RunFlags, session: SessionReady, lines: TextOutput | null): void {
  context.refused.keepIn(session.recordsDir);
  if (lines === null) {
    context.stdout.line(JSON.stringify({
      url: session.url,
      pid: Deno.pid,
      session_id: session.sessionId,
      name: session.name,
      version: session.version,
      workdir: session.workdir,
    }));
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
    session.frames?.subscribe(terminalView({
      stdout: context.stdout,
      stderr: context.stderr,
      thinking: flags.verbose ?? false,
    }));
  }
}

/**
 * The first SIGTERM ends the session in order; a second one, or a teardown that takes too long, ends the process at once
 * (spec session 17.3).
 */
function windDownOnTerminate(stop: AbortController, boundMs: number): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const onTerminate = () => {
    if (stop.signal.aborted) Deno.exit(TERMINATED);
    stop.abort();
    timer = setTimeout(() => Deno.exit(TERMINATED), boundMs);
  };
  Deno.addSignalListener("SIGTERM", onTerminate);
  return () => {
    clearTimeout(timer);
    Deno.removeSignalListener("SIGTERM", onTerminate);
  };
}
