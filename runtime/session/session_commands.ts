/**
 * The operating-system processes of a session: shell commands and native tools, through the one seam of `sandbox/`
 * (spec containment 12 to 14, components 8.5 to 8.7).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import { MurError } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { RootedDir } from "../../base/rooted_dir.ts";
import { commandArguments, isShellInterpreter } from "../../sandbox/command_words.ts";
import { commandEnvironment } from "../../sandbox/command_environment.ts";
import { type NativeToolResult, runNativeTool } from "../../sandbox/native_tool.ts";
import { shellResultMetadata, shellResultText } from "../../sandbox/shell_result.ts";
import { type DetachedCompletion, shellCommandOf, ShellSession } from "../../sandbox/shell_session.ts";
import { breachError, breachRefusal, WorkdirBudget } from "../../sandbox/workdir_budget.ts";
import type { ShellCommandLine } from "../agent/agent_hooks.ts";
import { type CallScope, DispatchRefusal, type ToolRun } from "../agent/tool_dispatch.ts";
import { completionStanding } from "../agent/task_origin.ts";
import type { Trust } from "../trace/trace_event.ts";
import type { TraceWriter } from "../trace/trace_writer.ts";
import { identityVariables, inferenceVariables } from "./component_environment.ts";
import type { ContainedCommands } from "./contained_commands.ts";
import type { SessionDirectories } from "./session_directories.ts";
import type { CommandTools } from "./session_tools.ts";
import type { StagedSession } from "./stage_session.ts";
import type { DetachedResidue, TaskRequest } from "./task_registry.ts";

/** What the commands of a session need. */
export interface SessionCommandsOptions {
  readonly staged: StagedSession;
  readonly directories: SessionDirectories;
  /** Starts them; `null` for a capsule that has none. */
  readonly contained: ContainedCommands | null;
  /** `localhost:<port>`. */
  readonly url: string;
  readonly trace: TraceWriter;
  /** Takes text for stderr and the bootstrap log. */
  readonly report: (text: string) => void;
  /** The work folder grew past its ceiling. */
  readonly breach: (error: MurError) => void;
  /** Queues the task that tells the agent of a background command's end. */
  readonly enqueue: (task: TaskRequest) => void;
}

/** The task that started a background command. */
interface Starter {
  readonly contextId: string;
  readonly trust: Trust;
  /** Unix milliseconds of its start. */
  readonly atMs: number;
}

/** Runs commands and native tools for one session. */
export class SessionCommands implements CommandTools {
  readonly #options: SessionCommandsOptions;
  readonly #shell: ShellSession | null;
  /** Commands of plans: waited for without limit and without the session's variables (spec containment 12, 13.4). */
  #planShell: ShellSession | null = null;
  #logs: RootedDir | null = null;
  readonly #budget: WorkdirBudget | null;
  /** Directories this object opened. */
  readonly #opened: RootedDir[] = [];
  /** Who started each background command that still runs: its outcome goes to the same conversation. */
  readonly #started = new Map<string, Starter>();

  constructor(options: SessionCommandsOptions) {
    this.#options = options;
    const { staged, contained, url } = options;
    const { manifest } = staged;
    this.#budget = contained === null ? null : this.#watchWorkdir();
    if (contained === null || manifest.capabilities.shellAllow.length === 0) {
      this.#shell = null;
      return;
    }
    this.#logs = this.#open("logs");
    this.#shell = this.#shellSession(contained, {
      ...inferenceVariables(manifest, ""),
      ...identityVariables(manifest, { sessionId: staged.sessionId, url }),
    }, staged.lifecycle.shellGraceSecs * 1_000);
  }

  /** @param grace Milliseconds; `null`: no command is moved to the background. */
  #shellSession(
    contained: ContainedCommands,
    session: Readonly<Record<string, string>>,
    grace: number | null,
  ): ShellSession {
    const { staged, directories } = this.#options;
    const env = this.#environment(contained, session);
    return new ShellSession({
      allow: staged.containment.allow.binaries,
      start: ({ path, args, ...streams }, signal) => {
        const program = contained.containment.programOf(path);
        return contained.start({ program, args, native: false }, { ...streams, env, input: null }, signal);
      },
      logs: { dir: this.#logs!, path: `${directories.paths.records}/logs` },
      grace,
      poll: staged.options.bounds.shellPoll,
      refusal: () => this.#refusal(),
      onCompleted: (completion) => this.#complete(completion),
    });
  }

  #environment({ containment }: ContainedCommands, session: Readonly<Record<string, string>>) {
    const { manifest: { capabilities }, env } = this.#options.staged;
    const { home, temporary, runtime } = containment.plan;
    return commandEnvironment({
      host: env,
      session,
      baselineEnv: capabilities.baselineEnv,
      stripEnv: capabilities.stripEnv,
      home,
      temporary: temporary.variable,
      runtimeDir: runtime,
    });
  }

  describeShell(binary: string, input: JsonObject): ShellCommandLine | null {
    const command = shellCommandOf(input);
    if (command === null) return null;
    const args = commandArguments(binary, command);
    return {
      binary: this.#shell?.binaryPath(binary) ?? binary,
      command,
      argv: [binary, ...args],
      script: isShellInterpreter(binary) ? args.at(-1)! : null,
    };
  }

  async shell(binary: string, input: JsonObject, scope: CallScope): Promise<ToolRun> {
    const shell = scope.inPlan === true ? this.#shellOfPlans() : this.#shell!;
    const outcome = await shell.run(binary, input, scope.signal);
    switch (outcome.kind) {
      case "error":
        return {
          passed: false,
          text: outcome.text,
          metadata: [],
          ...(outcome.fatal === undefined ? {} : { fatal: outcome.fatal }),
        };
      case "detached": {
        const { workId, binary: path, command } = outcome.detached;
        const { contextId, trust } = scope;
        this.#started.set(workId, { contextId, trust, atMs: Math.round(Date.now() - outcome.graceMs) });
        return {
          passed: true,
          text: `$ ${command}\nStill running after ${outcome.graceMs / 1_000} s; it goes on in the background as ` +
            `${workId}. There is no way to ask for it: its outcome comes as a task of its own.`,
          metadata: [],
          detached: { workId, binary: path, command, graceMs: outcome.graceMs },
        };
      }
      case "finished": {
        const { result } = outcome;
        return {
          passed: true,
          text: shellResultText(result),
          metadata: shellResultMetadata(result),
          shell: {
            binary: result.binary,
            command: result.command,
            exitCode: result.exitCode,
            stdout: result.stdout,
            stderr: result.stderr,
            stdoutBytes: result.stdoutBytes,
            stderrBytes: result.stderrBytes,
            durationMs: result.durationMs,
            ...(result.resourceLimit === null ? {} : { resourceLimit: result.resourceLimit }),
          },
        };
      }
    }
  }

  async step(binary: string, args: readonly string[], line: string, { signal }: CallScope): Promise<ToolRun> {
    const outcome = await this.#shellOfPlans().exec(binary, args, line, signal);
    if (outcome.kind !== "finished") {
      // Without a grace nothing is detached; a root that cannot be composed fails the step alone (spec containment 5.4).
      const text = outcome.kind === "error" ? outcome.text : "";
      return { passed: false, text, metadata: [] };
    }
    const { result } = outcome;
    const { exitCode, stdout, stderr, resourceLimit } = result;
    const failure = resourceLimit !== null
      ? limitError(binary, resourceLimit, exitCode).message
      : exitCode === 0
      ? null
      : stderr.trim() === ""
      ? `the command ended with exit code ${exitCode}`
      : stderr;
    return {
      passed: exitCode === 0 && resourceLimit === null,
      text: stdout,
      answer: { data: stdout, summary: failure, readData: () => null },
      metadata: [],
      truncated: result.truncated,
    };
  }

  #shellOfPlans(): ShellSession {
    return this.#planShell ??= this.#shellSession(this.#options.contained!, {}, null);
  }

  async native(tool: string, input: JsonObject, scope: CallScope): Promise<ToolRun> {
    const refusal = this.#refusal();
    if (refusal !== null) throw new DispatchRefusal(refusal);
    const contained = this.#options.contained!;
    const program = `${contained.containment.plan.runtime}/tools/${tool}/${tool}`;
    const env = this.#environment(contained, {});
    let result: NativeToolResult;
    try {
      result = await runNativeTool(
        tool,
        input,
        (streams) =>
          contained.start({ program, args: [], native: true }, { ...streams, env, spoolDir: null }, scope.signal),
        scope
          .signal,
      );
    } catch (cause) {
      if (!(cause instanceof MurError && cause.code === "E-RUN-014")) throw cause;
      return { passed: false, text: cause.message, metadata: [], fatal: cause };
    }
    return {
      passed: result.status === "passed",
      text: result.data ?? result.summary ?? "tool returned no data",
      answer: { data: result.data, summary: result.summary, readData: () => null },
      metadata: [],
    };
  }

  /** Background commands that still run (spec door 10.3). */
  residue(): readonly DetachedResidue[] {
    return (this.#shell?.running ?? []).map(({ workId, binary, command }) => ({
      kind: "detached_shell",
      work_id: workId,
      binary,
      command,
      started_at_ms: this.#started.get(workId)?.atMs ?? 0,
    }));
  }

  /**
   * Where a path of a call leads, workdir-relative, symbolic links resolved also when its last components do not exist;
   * `null` outside the work folder.
   */
  readonly resolvePath = (path: string): string | null => resolveBelow(this.#options.directories.paths.workdir, path);

  /** The session ends in order: background commands go on, and are reported (spec session 16.3). */
  async abandon(): Promise<void> {
    const { trace, report } = this.#options;
    await this.#planShell?.abandon();
    const left = await this.#shell?.abandon() ?? [];
    for (const { workId, binary, command, runningMs, finished } of left) {
      trace.write("shell_abandoned", {
        work_id: workId,
        binary,
        command,
        running_ms: runningMs,
        ...(finished === null ? {} : {
          exit_code: finished.exitCode,
          output_path: finished.outputPath,
          output_bytes: finished.outputBytes,
        }),
      });
    }
    if (left.length === 0) return;
    report([
      `${left.length} background command(s) outlive this session:`,
      ...left.map(({ workId, binary, command, runningMs, finished }) =>
        `  ${workId}  ${binary}  ${command}  ` +
        (finished === null ? `running for ${Math.round(runningMs / 1_000)} s` : `exit code ${finished.exitCode}`)
      ),
    ].join("\n"));
  }

  /** Kills what is left and lets go of everything. After {@linkcode abandon} nothing is killed. */
  async close(orderly: boolean): Promise<void> {
    this.#budget?.stop();
    if (!orderly) await Promise.all([this.#shell?.kill(), this.#planShell?.kill()]);
    for (const directory of this.#opened) directory.close();
  }

  #complete(completion: DetachedCompletion): void {
    const taskId = newId("tsk");
    const starter = this.#started.get(completion.workId);
    this.#started.delete(completion.workId);
    this.#options.trace.write("shell_completed", {
      work_id: completion.workId,
      binary: completion.binary,
      command: completion.command,
      exit_code: completion.exitCode,
      duration_ms: completion.durationMs,
      output_path: completion.outputPath,
      output_bytes: completion.outputBytes,
      ...(completion.resourceLimit === null ? {} : { resource_limit: completion.resourceLimit }),
      status: completion.exitCode === 0 ? "ok" : "error",
      completion_task_id: taskId,
    });
    this.#options.enqueue({
      id: taskId,
      contextId: starter?.contextId ?? newId("ctx"),
      loadHistory: this.#options.staged.lifecycle.conversation === "threaded",
      text: [
        `The background command ${completion.workId} has ended with exit code ${completion.exitCode}.`,
        `Command: ${completion.binary} ${completion.command}`,
        `Output: ${completion.absoluteOutputPath} (${completion.outputBytes} bytes)`,
      ].join("\n"),
      source: "detached_shell",
      standing: completionStanding(starter?.trust ?? "untrusted"),
      door: null,
    });
  }

  #refusal(): string | null {
    const breach = this.#budget?.breach ?? null;
    return breach === null ? null : breachRefusal(breach);
  }

  #watchWorkdir(): WorkdirBudget {
    const { directories, staged, breach } = this.#options;
    return new WorkdirBudget({
      roots: [directories.workdir, ...["tmp", "home", "logs"].map((name) => this.#open(name))],
      maxBytes: staged.manifest.capabilities.resources.workdirMaxBytes,
      interval: staged.options.bounds.workdirWalk,
      onBreach: (found) => breach(breachError(found)),
    });
  }

  #open(name: string): RootedDir {
    const directory = this.#options.directories.records.openDir(name, { follow: false });
    this.#opened.push(directory);
    return directory;
  }
}

/** A command of a plan that a limit ended. */
function limitError(binary: string, limit: string, exitCode: number): MurError {
  return new MurError(
    "E-RUN-011",
    `shell subprocess '${binary}' was killed for exceeding capabilities.resources.${limit}: it ended with exit code ` +
      `${exitCode}`,
    { hint: `raise capabilities.resources.${limit}, or let the command do less at once` },
  );
}

/** Longest chain of symbolic links that is followed. */
const MAX_LINKS = 40;

/**
 * Resolves a path the way a command run in `root` would, links included, whether or not its end exists.
 *
 * @returns The path relative to `root` (`.` for itself), or `null` when it leads out of it or cannot be told.
 */
export function resolveBelow(root: string, path: string): string | null {
  let base: string;
  try {
    base = Deno.realPathSync(root);
  } catch {
    return null;
  }
  const pending = (path.startsWith("/") ? path : `${base}/${path}`).split("/").reverse();
  const resolved: string[] = [];
  let links = 0;
  while (pending.length > 0) {
    const part = pending.pop()!;
    if (part === "" || part === ".") continue;
    if (part === "..") {
      resolved.pop();
      continue;
    }
    const at = `/${[...resolved, part].join("/")}`;
    let target: string | null = null;
    try {
      if (Deno.lstatSync(at).isSymlink) target = Deno.readLinkSync(at);
    } catch {
      // It does not exist: what follows is taken as written.
    }
    if (target === null) {
      resolved.push(part);
      continue;
    }
    if (++links > MAX_LINKS) return null;
    if (target.startsWith("/")) resolved.length = 0;
    pending.push(...target.split("/").reverse());
  }
  const full = `/${resolved.join("/")}`;
  if (full === base) return ".";
  return full.startsWith(`${base}/`) ? full.slice(base.length + 1) : null;
}
