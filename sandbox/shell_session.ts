/**
 * The shell commands of one session: run in the foreground for a grace, then moved to the background, where they go on
 * independently until they end or the session does (spec containment 13, session 16.3).
 *
 * @module
 */
import { type MurError, reasonOf } from "../base/errors.ts";
import { newId } from "../base/ids.ts";
import { SHELL_OUTPUT_LIMIT } from "./command_output.ts";
import { commandArguments } from "./command_words.ts";
import { composedRootFailure } from "./composed_root.ts";
import type { ExecutablePath } from "./executable_path.ts";
import type { CommandEnd, ExceededLimit, RunningCommand } from "./running_command.ts";
import type { AllowedBinary } from "./shell_allow.ts";
import { type ShellLogs, type ShellResult, shellResult, writeShellLog } from "./shell_result.ts";

/** What the commands of a session share. */
export interface ShellSessionOptions {
  /** `capabilities.shell.allow` as it was resolved at launch; a binary created later under a name gains nothing. */
  readonly allow: readonly AllowedBinary[];
  /**
   * Starts a command behind its walls, in the work folder, with nothing to read. `signal` gives up what must be waited for
   * before; a command that runs is not its business.
   */
  readonly start: (command: ShellStart, signal: AbortSignal | undefined) => Promise<RunningCommand>;
  readonly logs: ShellLogs;
  /** Milliseconds a command may hold its turn; `null`: it is waited for without limit. */
  readonly grace: number | null;
  /** Milliseconds between looks at a foreground command. */
  readonly poll: number;
  /** Text that refuses every command from now on; `null` while they may run (the work folder's size). */
  readonly refusal: () => string | null;
  /** A background command has ended; its log is written. Not called for one the session abandoned. */
  readonly onCompleted: (completion: DetachedCompletion) => void;
}

/** A command to start. */
export interface ShellStart {
  readonly path: ExecutablePath;
  /** Without the program's name. */
  readonly args: readonly string[];
  /** Bytes of each stream held in memory. */
  readonly keep: number;
  /** Where longer output is kept. */
  readonly spoolDir: ShellLogs["dir"];
}

/** A command moved to the background. */
export interface DetachedCommand {
  readonly workId: string;
  /** Canonical path. */
  readonly binary: string;
  readonly command: string;
}

/** A background command that ended. */
export interface DetachedCompletion extends DetachedCommand {
  readonly exitCode: number;
  readonly durationMs: number;
  /** Relative to the records directory. */
  readonly outputPath: string;
  readonly absoluteOutputPath: string;
  /** 0 when the log could not be written. */
  readonly outputBytes: number;
  readonly resourceLimit: ExceededLimit | null;
}

/** A background command a session left behind. */
export interface AbandonedCommand extends DetachedCommand {
  readonly runningMs: number;
  /** Set when it ended during teardown. */
  readonly finished: Pick<DetachedCompletion, "exitCode" | "outputPath" | "outputBytes"> | null;
}

/** What running a shell command gave. */
export type ShellOutcome =
  /** Nothing ran, or it could not be started; `text` goes to the model. `fatal` ends the session. */
  | { readonly kind: "error"; readonly summary: string; readonly text: string; readonly fatal?: MurError }
  | { readonly kind: "finished"; readonly result: ShellResult }
  | { readonly kind: "detached"; readonly detached: DetachedCommand; readonly graceMs: number };

interface Background extends DetachedCommand {
  readonly running: RunningCommand;
  completion: DetachedCompletion | null;
}

/** Runs the shell commands of one session. */
export class ShellSession {
  readonly #options: ShellSessionOptions;
  readonly #paths = new Map<string, ExecutablePath | null>();
  readonly #foreground = new Set<RunningCommand>();
  readonly #background = new Map<string, Background>();
  #ended = false;

  constructor(options: ShellSessionOptions) {
    this.#options = options;
    for (const { name, matches } of options.allow) this.#paths.set(name, matches[0] ?? null);
  }

  /** Canonical path of an allowed binary, the bare name when there is none. */
  binaryPath(name: string): string {
    return this.#paths.get(name)?.canonical ?? name;
  }

  /** Background commands that still run. */
  get running(): readonly DetachedCommand[] {
    return [...this.#background.values()].filter(({ completion }) => completion === null);
  }

  /**
   * Runs one call.
   *
   * @param signal Kills the command while it is in the foreground.
   */
  async run(name: string, input: unknown, signal?: AbortSignal): Promise<ShellOutcome> {
    const command = shellCommandOf(input);
    if (command === null) {
      return {
        kind: "error",
        summary: "shell command parsing failed",
        text: "shell tool input must include a non-empty 'command' string",
      };
    }
    return await this.exec(name, commandArguments(name, command), command, signal);
  }

  /**
   * Runs an allowed binary with its words.
   *
   * @param command What is told of it.
   * @param signal Kills the command while it is in the foreground.
   */
  async exec(name: string, args: readonly string[], command: string, signal?: AbortSignal): Promise<ShellOutcome> {
    const failed = (text: string) => ({ kind: "error", summary: "shell execution failed", text }) as const;
    const path = this.#paths.get(name);
    if (path === undefined) return failed(`binary '${name}' is not in capabilities.shell.allow`);
    const refusal = this.#options.refusal();
    if (refusal !== null) return failed(refusal);
    if (path === null) return failed(`binary '${name}' was not found on PATH when the session started`);
    if (this.#ended) return failed("the session is ending");
    let running: RunningCommand;
    try {
      running = await this.#options.start({
        path,
        args,
        keep: SHELL_OUTPUT_LIMIT,
        spoolDir: this.#options.logs.dir,
      }, signal);
    } catch (cause) {
      return failed(`sandbox: shell enforcement setup failed before exec: ${reasonOf(cause)}`);
    }

    const kill = () => running.kill();
    this.#foreground.add(running);
    signal?.addEventListener("abort", kill);
    if (signal?.aborted || this.#ended) kill();
    let end: CommandEnd | null;
    try {
      end = await this.#waitForeground(running, signal);
    } finally {
      signal?.removeEventListener("abort", kill);
      this.#foreground.delete(running);
    }
    if (end === null) {
      const detached = { workId: newId("wrk"), binary: path.canonical, command };
      this.#detach({ ...detached, running, completion: null });
      return { kind: "detached", detached, graceMs: this.#options.grace ?? 0 };
    }
    if (end.failure !== null) {
      end.stdout.close();
      end.stderr.close();
      const { stage, reason } = end.failure;
      const fatal = composedRootFailure(end.failure);
      return {
        ...failed(
          stage === "exec"
            ? `cannot execute ${path.invoked}: ${reason}`
            : `sandbox: shell enforcement setup failed before exec: ${stage}: ${reason}`,
        ),
        ...(fatal === null ? {} : { fatal }),
      };
    }
    return { kind: "finished", result: shellResult(path.canonical, command, end, this.#options.logs) };
  }

  /** The end of a command, or `null` when its grace is over. A killed one is waited for. */
  async #waitForeground(running: RunningCommand, signal: AbortSignal | undefined): Promise<CommandEnd | null> {
    const { grace, poll } = this.#options;
    if (grace === null) return await running.end;
    let ended = false;
    const end = running.end.finally(() => ended = true);
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      while (!ended) {
        const pause = new Promise<null>((resolve) => timer = setTimeout(() => resolve(null), poll));
        const won = await Promise.race([end, pause]);
        if (won !== null) return won;
        clearTimeout(timer);
        if (running.elapsed() >= grace && !signal?.aborted && !this.#ended) return null;
      }
      return await end;
    } finally {
      clearTimeout(timer);
    }
  }

  #detach(background: Background): void {
    const { workId, binary, command, running } = background;
    this.#background.set(workId, background);
    void running.end.then((end) => {
      const { logs } = this.#options;
      const name = `${workId}.log`;
      let outputBytes = 0;
      try {
        outputBytes = writeShellLog(logs.dir, name, command, end);
      } catch {
        // The completion says that nothing was written.
      }
      end.stdout.close();
      end.stderr.close();
      const completion: DetachedCompletion = {
        workId,
        binary,
        command,
        exitCode: end.exitCode,
        durationMs: Math.round(end.durationMs),
        outputPath: `logs/${name}`,
        absoluteOutputPath: `${logs.path}/${name}`,
        outputBytes,
        resourceLimit: end.resourceLimit,
      };
      background.completion = completion;
      if (this.#ended) return;
      this.#background.delete(workId);
      this.#options.onCompleted(completion);
    });
  }

  /**
   * The session ends in order: background commands go on without it, whatever runs in the foreground is killed.
   *
   * @returns The commands left behind, and those that ended since the last completion was delivered.
   */
  async abandon(): Promise<AbandonedCommand[]> {
    this.#ended = true;
    for (const running of this.#foreground) running.kill();
    const left = [...this.#background.values()];
    await Promise.all(left.filter(({ completion }) => completion === null).map(({ running }) => running.release()));
    return left.map(({ workId, binary, command, running, completion }) => ({
      workId,
      binary,
      command,
      runningMs: Math.round(completion?.durationMs ?? running.elapsed()),
      finished: completion,
    }));
  }

  /** The session ends out of order: everything is killed. Resolves when nothing is left. */
  async kill(): Promise<void> {
    this.#ended = true;
    const all = [...this.#foreground, ...[...this.#background.values()].map(({ running }) => running)];
    for (const running of all) running.kill();
    await Promise.all(all.map((running) => running.end));
  }
}

/** The command of a call, trimmed; `null` when it brings none. */
export function shellCommandOf(input: unknown): string | null {
  if (typeof input !== "object" || input === null || !("command" in input)) return null;
  const { command } = input;
  if (typeof command !== "string") return null;
  return command.trim() || null;
}
