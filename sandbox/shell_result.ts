/**
 * What a shell command gives back: the text the model sees and the log of its full output (spec containment 13.3,
 * components 8.7).
 *
 * @module
 */
import { type RootedDir, type RootedFile } from "../base/rooted_dir.ts";
import { isRootedError } from "../base/rooted_error.ts";
import type { CommandEnd, ExceededLimit } from "./running_command.ts";

/** A shell command that ran. */
export interface ShellResult {
  /** Canonical absolute path, or the bare name where it did not resolve. */
  readonly binary: string;
  /** As called, trimmed. */
  readonly command: string;
  readonly exitCode: number;
  /** Cut texts. */
  readonly stdout: string;
  readonly stderr: string;
  /** UTF-8 bytes of the cut texts. */
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly durationMs: number;
  readonly truncated: boolean;
  /** Absolute path of the full output; `null` when nothing was cut or it could not be written. */
  readonly fullOutputPath: string | null;
  readonly resourceLimit: ExceededLimit | null;
}

/** The text of a result. */
export function shellResultText(result: ShellResult): string {
  const text =
    `$ ${result.command}\nExit code: ${result.exitCode}\nStdout:\n${result.stdout}\nStderr:\n${result.stderr}`;
  if (!result.truncated) return text;
  return result.fullOutputPath === null
    ? `${text}\n\nOutput truncated.`
    : `${text}\n\nOutput truncated. Full output written to ${result.fullOutputPath}`;
}

/** Summary of a result. */
export function shellResultSummary(result: ShellResult): string {
  return `Shell command exited with code ${result.exitCode}`;
}

/** Metadata of a result. */
export function shellResultMetadata(result: ShellResult): (readonly [string, string])[] {
  return result.fullOutputPath === null ? [] : [["full_output_path", result.fullOutputPath]];
}

const encoder = new TextEncoder();

/**
 * Writes the full output of a command: `Command:`, `Exit code:`, a blank line, `Stdout:` and its text, a blank line,
 * `Stderr:` and its text.
 *
 * @returns Bytes written.
 * @throws {RootedError} When it can't be written; then no file is left.
 */
export function writeShellLog(logs: RootedDir, name: string, command: string, end: CommandEnd): number {
  const file = logs.openFile(name, { write: true, createNew: true, mode: 0o600, follow: false });
  try {
    let at = write(file, 0, `Command: ${command}\nExit code: ${end.exitCode}\n\nStdout:\n`);
    at = end.stdout.copyTo(file, at);
    at = write(file, at, "\n\nStderr:\n");
    at = end.stderr.copyTo(file, at);
    return write(file, at, "\n");
  } catch (error) {
    logs.unlink(name);
    throw error;
  } finally {
    file.close();
  }
}

function write(file: RootedFile, at: number, text: string): number {
  const bytes = encoder.encode(text);
  file.write(at, bytes);
  return at + bytes.length;
}

/** Where full outputs go. */
export interface ShellLogs {
  /** The records directory's `logs/`. */
  readonly dir: RootedDir;
  /** Its absolute path, as the model is told it. */
  readonly path: string;
}

/** Turns an ended command into its result, writes `shell-<unix ms>.log` when something was cut, and closes its outputs. */
export function shellResult(
  binary: string,
  command: string,
  end: CommandEnd,
  logs: ShellLogs,
  now: number = Date.now(),
): ShellResult {
  const truncated = end.stdout.overflowed || end.stderr.overflowed;
  const stdout = end.stdout.text();
  const stderr = end.stderr.text();
  let fullOutputPath: string | null = null;
  if (truncated) {
    // Two commands may end in one millisecond.
    for (let ms = now; fullOutputPath === null && ms < now + 100; ms++) {
      try {
        writeShellLog(logs.dir, `shell-${ms}.log`, command, end);
        fullOutputPath = `${logs.path}/shell-${ms}.log`;
      } catch (error) {
        if (!isRootedError(error, "exist")) break;
      }
    }
  }
  end.stdout.close();
  end.stderr.close();
  return {
    binary,
    command,
    exitCode: end.exitCode,
    stdout,
    stderr,
    stdoutBytes: encoder.encode(stdout).length,
    stderrBytes: encoder.encode(stderr).length,
    durationMs: Math.round(end.durationMs),
    truncated,
    fullOutputPath,
    resourceLimit: end.resourceLimit,
  };
}
