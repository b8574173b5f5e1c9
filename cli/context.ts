/**
 * What a command gets from the process it runs in: streams, environment, home, time bounds. Commands read nothing else
 * of the process, so a test runs one with a context of its own.
 *
 * A command is one file with one function `(context, options) => Promise<number>`: it prints its result to
 * `context.stdout`, gives warnings to `context.warn`, throws `MurError` on failure and returns the exit status
 * (spec cli 1).
 *
 * @module
 */
import { readVariable } from "../base/environment_variable.ts";
import { formatWarning, type Warning } from "../base/errors.ts";
import { type MurmurHome, murmurHome } from "../base/murmur_home.ts";
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "../base/time_bounds.ts";
import { escapeControls } from "../runtime/agent/terminal_text.ts";

/** A text stream of the process. A stream its reader closed swallows what is written (spec cli 12.4). */
export interface TextOutput {
  readonly isTerminal: boolean;
  /** Whether escape sequences may be written: a terminal, and `NO_COLOR` unset or empty. */
  readonly color: boolean;
  /** Writes text as it is. Returns false when the stream is closed. */
  write(text: string): boolean;
  /** As {@linkcode write}, for bytes that are no text. */
  writeBytes(bytes: Uint8Array): boolean;
  /** Writes text and a newline; on a terminal control characters are shown, never obeyed (spec components 3.5). */
  line(text: string): boolean;
}

/** Progress of long work, shown on a terminal after one second, and nowhere else. */
export interface Progress {
  update(label: string): void;
  done(): void;
}

/** Read access to the environment. */
export interface Environment {
  get(name: string): string | undefined;
  toObject(): Record<string, string>;
}

export interface CliContext {
  /** Absolute path of the current directory. */
  readonly cwd: string;
  readonly env: Environment;
  readonly stdout: TextOutput;
  readonly stderr: TextOutput;
  /** Why standard output could not be written, e.g. a full disk; `null` while it can be, or when its reader went away. */
  lostOutput(): unknown;
  readonly bounds: TimeBounds;
  /** `~/.murmur`; a relative home is taken against `cwd`. */
  home(): MurmurHome;
  /**
   * `~/.murmur` where records and state are kept. @throws {MurError} `E-IO-003` when the home is relative.
   */
  absoluteHome(): MurmurHome;
  warn(warning: Warning): void;
  progress(label: string): Progress;
}

/** A stream of a process as commands see it. */
export function textOutput(
  stream: { writeSync(bytes: Uint8Array): number; isTerminal(): boolean },
  env: Pick<Environment, "get">,
  lost: (cause: unknown) => void = () => {},
): TextOutput {
  const encoder = new TextEncoder();
  const isTerminal = stream.isTerminal();
  let open = true;
  const writeBytes = (bytes: Uint8Array): boolean => {
    if (!open) return false;
    let rest = bytes;
    try {
      while (rest.length > 0) rest = rest.subarray(stream.writeSync(rest));
      return true;
    } catch (cause) {
      // A reader that went away is no failure of the command (spec cli 1.1).
      if (!(cause instanceof Deno.errors.BrokenPipe)) lost(cause);
      open = false;
      return false;
    }
  };
  const write = (text: string) => writeBytes(encoder.encode(text));
  return {
    isTerminal,
    color: isTerminal && !env.get("NO_COLOR"),
    write,
    writeBytes,
    // What a line holds may come from a component, a provider or an archive, an error's text included.
    line: (text) => write(`${isTerminal ? escapeControls(text) : text}\n`),
  };
}

/**
 * The progress line of a terminal. Other output to the stream takes its place, and it comes back below.
 *
 * @returns the stream to write to from now on, and the way to show progress: a label, once work outlasts a second.
 */
export function progressLine(
  stream: TextOutput,
): { readonly output: TextOutput; readonly progress: (label: string) => Progress } {
  if (!stream.isTerminal) return { output: stream, progress: () => ({ update: () => {}, done: () => {} }) };
  let shown: string | null = null;
  const show = (label: string | null) => {
    if (shown !== null || label !== null) stream.write(label === null ? "\r\x1b[K" : `\r\x1b[K${label} …`);
    shown = label;
  };
  const output: TextOutput = {
    ...stream,
    line(text) {
      const label = shown;
      show(null);
      const written = stream.line(text);
      show(label);
      return written;
    },
  };
  const progress = (label: string): Progress => {
    let current = label;
    let running = false;
    const timer = setTimeout(() => {
      running = true;
      show(escapeControls(current));
    }, 1_000);
    Deno.unrefTimer(timer);
    return {
      update(next) {
        current = next;
        if (running) show(escapeControls(current));
      },
      done() {
        clearTimeout(timer);
        if (running) show(null);
        running = false;
      },
    };
  };
  return { output, progress };
}

/** The context of this process. */
export function processContext(bounds: TimeBounds = DEFAULT_TIME_BOUNDS): CliContext {
  const env: Environment = { get: readVariable, toObject: () => Deno.env.toObject() };
  const cwd = Deno.cwd();
  let lost: unknown = null;
  const stdout = textOutput(Deno.stdout, env, (cause) => lost = cause);
  const { output: stderr, progress } = progressLine(textOutput(Deno.stderr, env));
  return {
    cwd,
    env,
    stdout,
    stderr,
    lostOutput: () => lost,
    bounds,
    home: () => murmurHome(env, cwd),
    absoluteHome: () => murmurHome(env),
    warn: (warning) => void stderr.line(formatWarning(warning)),
    progress,
  };
}
