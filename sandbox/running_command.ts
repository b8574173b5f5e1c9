/**
 * A command that runs and how it ends, whatever walls are around it (spec containment 13, 14.2).
 *
 * @module
 */
import type { CommandOutput } from "./command_output.ts";
import type { WatchedLimit } from "./confine_records.ts";

/** Limits a command can be told to have ended by (spec containment 14.2). */
export type ExceededLimit = WatchedLimit | "cpu_seconds" | "max_file_size_bytes";

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
