/**
 * The process of a delegated child: its lifeline, its standard streams and its end (spec roost 10.2, 13, 16.4).
 *
 * @module
 */
import { reasonOf } from "../../base/errors.ts";
import { PipedProcess } from "../../base/piped_process.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import type { ChildExit } from "./child_launch.ts";
import { makeLifeline } from "./lifeline.ts";
import { OutputLines } from "./output_lines.ts";
import { MAX_READINESS_BYTES } from "./readiness_line.ts";

/** Lines of its errors that are kept, and the most of each. */
const KEPT_LINES = 20;
const MAX_LINE_CHARACTERS = 2_000;

const SIGTERM = 15;

/** What is started. */
export interface SpawnedProcessOptions {
  /** Absolute path. */
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Written to its standard input, which is closed behind it. */
  readonly input: string;
  readonly bounds: Pick<TimeBounds, "childStopGrace" | "childLastWords">;
  /** Lines on stderr that are neither kept nor told. */
  readonly nothingNew: ReadonlySet<string>;
  /** Each other line it writes to stderr. */
  readonly diagnostics: (line: string) => void;
}

/** A child that runs. It is waited for from its start on: whatever ends it, nothing of it is left behind. */
export class SpawnedProcess {
  readonly pid: number;
  /** On the clock of `performance.now()`. */
  readonly launchedAt = performance.now();
  /** Its first line of output; `null` when it ends without one. */
  readonly firstLine: Promise<string | null>;
  /** Settles when it is gone and reaped, and what it said last was heard; never fails. */
  readonly exited: Promise<ChildExit>;
  readonly #process: PipedProcess;
  readonly #bounds: SpawnedProcessOptions["bounds"];
  readonly #tail: string[] = [];
  #ending: Promise<ChildExit> | null = null;

  /** @throws {MurError} `E-IO-…` when it can't be started; nothing is left then. */
  constructor(options: SpawnedProcessOptions) {
    this.#bounds = options.bounds;
    const lifeline = makeLifeline();
    const first = Promise.withResolvers<string | null>();
    const silent = Promise.withResolvers<void>();
    this.firstLine = first.promise;
    // What follows the first line is read, so that the child never waits for a reader, and is of no use.
    let output: OutputLines | null = new OutputLines(MAX_READINESS_BYTES, (line) => {
      output = null;
      first.resolve(line);
    });
    const errors = new OutputLines(MAX_LINE_CHARACTERS, (line) => {
      if (options.nothingNew.has(line)) return;
      this.#tail.push(line);
      if (this.#tail.length > KEPT_LINES) this.#tail.shift();
      options.diagnostics(line);
    });
    try {
      // A signal to the group of this process, from a terminal, `timeout` or a shell, is not for its children: it ends them
      // itself. A second one would cut their winding down short.
      this.#process = new PipedProcess({ ...options, descriptors: [lifeline.childEnd], ownSession: true }, {
        stdout: (bytes) => output?.add(bytes),
        stdoutEnd: () => {
          output?.end();
          first.resolve(null);
        },
        stderr: (bytes) => errors.add(bytes),
        stderrEnd: () => {
          errors.end();
          silent.resolve();
        },
      });
    } catch (error) {
      lifeline.release();
      throw error;
    } finally {
      lifeline.closeChildEnd();
    }
    this.pid = this.#process.pid;
    this.exited = this.#exit(silent.promise, () => {
      lifeline.release();
      first.resolve(null);
    });
    this.#process.write(new TextEncoder().encode(options.input));
    this.#process.closeInput();
  }

  async #exit(silent: Promise<void>, gone: () => void): Promise<ChildExit> {
    let status: Awaited<ReturnType<PipedProcess["exited"]>>;
    try {
      status = await this.#process.exited();
    } catch (cause) {
      // Nothing could tell when it ends, and one that is not watched does not run.
      this.#tail.push(`it cannot be waited for: ${reasonOf(cause)}`);
      status = await this.#process.end();
    }
    const at = performance.now();
    gone();
    // A process of its own that it left behind may still hold the stream.
    const bound = Promise.withResolvers<void>();
    const timer = setTimeout(bound.resolve, this.#bounds.childLastWords);
    await Promise.race([silent, bound.promise]);
    clearTimeout(timer);
    return { ...status, at };
  }

  /** The last lines it wrote to stderr, oldest first. */
  stderrTail(): readonly string[] {
    return [...this.#tail];
  }

  /** `SIGTERM`, the grace, `SIGKILL`; a second call joins the first. */
  end(): Promise<ChildExit> {
    return this.#ending ??= this.#end();
  }

  async #end(): Promise<ChildExit> {
    this.#process.signal(SIGTERM);
    const timer = setTimeout(() => this.#process.kill(), this.#bounds.childStopGrace);
    try {
      return await this.exited;
    } finally {
      clearTimeout(timer);
    }
  }

  /** `SIGKILL` at once. */
  kill(): Promise<ChildExit> {
    this.#process.kill();
    return this.exited;
  }
}
