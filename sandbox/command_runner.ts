/**
 * Running one command under the helper: cleared environment, both pipes drained, nothing left when it or the runtime
 * ends (spec containment 13, 14, 19).
 *
 * @module
 */
import type { RootedDir } from "../base/rooted_dir.ts";
import { CommandOutput } from "./command_output.ts";
import {
  GUARD_KILL_SIGNAL,
  GUARD_RELEASE,
  guardArguments,
  parseExceeded,
  parseGuardFailure,
  type ProcessRlimits,
  type SampledLimits,
} from "./guard.ts";

/** A command to start. */
export interface CommandStart {
  /** Path of `mur-confine`. */
  readonly helper: string;
  /** Absolute path. */
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** What it reads, and then its end; `null`: `/dev/null`. */
  readonly input: Uint8Array<ArrayBuffer> | null;
  readonly rlimits?: ProcessRlimits;
  readonly samples?: SampledLimits;
  /** Bytes of each stream held in memory. */
  readonly keep: number;
  /** Where longer output is kept; `null`: it is dropped. */
  readonly spoolDir: RootedDir | null;
}

/** Limits a command can be told to have ended by (spec containment 14.2). */
export type ExceededLimit = keyof SampledLimits | "cpu_seconds" | "max_file_size_bytes";

/** How a command ended. Whoever gets it closes both outputs. */
export interface CommandEnd {
  /** Set when the program never ran: the stage that failed and why (spec containment 19.10). */
  readonly failure: { readonly stage: string; readonly reason: string } | null;
  /** Its status, `128 + signal` for one that a signal ended. */
  readonly exitCode: number;
  readonly signal: Deno.Signal | null;
  readonly stdout: CommandOutput;
  readonly stderr: CommandOutput;
  readonly durationMs: number;
  readonly resourceLimit: ExceededLimit | null;
}

/** A command that runs. */
export interface RunningCommand {
  /** Resolves when it has ended and both pipes are empty. */
  readonly end: Promise<CommandEnd>;
  /** Milliseconds since it was started. */
  elapsed(): number;
  /** Kills it and everything it started. */
  kill(): void;
  /**
   * Lets it go on when this process ends: its output is dropped from then on, its limits stay. Only for one without input.
   * Resolves once the helper was told.
   */
  release(): Promise<void>;
}

/**
 * Starts a command. A program that can't be started shows in `end`, as the helper tells.
 *
 * @throws When the helper itself can't be started.
 */
export function startCommand(start: CommandStart): RunningCommand {
  const started = performance.now();
  const child = new Deno.Command(start.helper, {
    args: guardArguments(
      {
        input: start.input === null ? "none" : start.input.length,
        ...(start.rlimits === undefined ? {} : { rlimits: start.rlimits }),
        ...(start.samples === undefined ? {} : { samples: start.samples }),
      },
      start.program,
      start.args,
    ),
    cwd: start.cwd,
    clearEnv: true,
    env: { ...start.env },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();

  // The line stays open as long as the command may run: its end would mean that this process is gone.
  const line = child.stdin.getWriter();
  const said = start.input === null || start.input.length === 0
    ? Promise.resolve()
    : line.write(start.input).catch(() => {}); // A program need not read its input.

  const stdout = new CommandOutput(start.keep, start.spoolDir);
  const stderr = new CommandOutput(start.keep, start.spoolDir);
  const tail = new Tail();
  const end = (async (): Promise<CommandEnd> => {
    const [status] = await Promise.all([
      child.status,
      drain(child.stdout, (chunk) => stdout.write(chunk)),
      drain(child.stderr, (chunk) => {
        tail.take(chunk);
        stderr.write(chunk);
      }),
    ]);
    const durationMs = performance.now() - started;
    await said;
    await line.close().catch(() => {});
    const failure = stdout.total === 0 && !stderr.overflowed ? parseGuardFailure(stderr.text()) : null;
    return {
      failure,
      exitCode: status.code,
      signal: status.signal,
      stdout,
      stderr,
      durationMs,
      resourceLimit: failure === null ? exceeded(status.signal, tail.text()) : null,
    };
  })();

  return {
    end,
    elapsed: () => performance.now() - started,
    kill() {
      try {
        child.kill(GUARD_KILL_SIGNAL);
      } catch {
        // It has ended.
      }
    },
    async release() {
      await line.write(new TextEncoder().encode(GUARD_RELEASE)).catch(() => {});
      child.unref();
    },
  };
}

/** The last bytes of a stream. */
class Tail {
  static readonly #ROOM = 128;
  #bytes = new Uint8Array(0);

  take(chunk: Uint8Array): void {
    const last = chunk.subarray(-Tail.#ROOM);
    const joined = new Uint8Array(this.#bytes.length + last.length);
    joined.set(this.#bytes);
    joined.set(last, this.#bytes.length);
    this.#bytes = joined.subarray(-Tail.#ROOM).slice();
  }

  text(): string {
    return new TextDecoder().decode(this.#bytes);
  }
}

function exceeded(signal: Deno.Signal | null, tail: string): ExceededLimit | null {
  const told = parseExceeded(tail);
  if (told !== null) return told;
  if (signal === "SIGXCPU") return "cpu_seconds";
  return signal === "SIGXFSZ" ? "max_file_size_bytes" : null;
}

async function drain(stream: ReadableStream<Uint8Array<ArrayBuffer>>, take: (chunk: Uint8Array<ArrayBuffer>) => void) {
  for await (const chunk of stream) take(chunk);
}
