/**
 * Running one command behind its walls: the helper's `run` mode, told what to do by records (spec containment 13, 19).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import type { RootedDir } from "../base/rooted_dir.ts";
import { CommandOutput } from "./command_output.ts";
import type { CommandEnd, ExceededLimit, RunningCommand } from "./running_command.ts";
import {
  type ConfineFailure,
  ControlConnection,
  ControlSocket,
  type ExitNotice,
  FRAME,
  type FrameType,
  MAX_SPEC_BYTES,
  parseExited,
  parseFailed,
  parseStarted,
  type StartedNotice,
} from "./confine_control.ts";
import { type CommandRecord, encodeRecords, type WatchedLimit } from "./confine_records.ts";

/** A command to start behind its walls. */
export interface ConfinedStart {
  /** Path of `mur-confine`. */
  readonly helper: string;
  readonly records: readonly CommandRecord[];
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** What it reads, and then its end; `null`: `/dev/null`. */
  readonly input: Uint8Array<ArrayBuffer> | null;
  /** Where its control socket lies, as `makeControlDirectory` made it. */
  readonly controlDirectory: string;
  /** Bytes of each stream held in memory. */
  readonly keep: number;
  /** Where longer output is kept; `null`: it is dropped. */
  readonly spoolDir: RootedDir | null;
  /** Milliseconds the helper may take to connect. */
  readonly connectMs: number;
}

/** A command that runs behind its walls. */
export interface ConfinedCommand extends RunningCommand {
  /** Resolves once it runs; `null` when it never did. */
  readonly started: Promise<StartedNotice | null>;
  /** Resolves with `end`; `null` when the helper never told how the command ended. */
  readonly exit: Promise<ExitNotice | null>;
  /** Sends a signal to its process group. */
  signal(number: number): void;
}

/** Signals of Linux by number, on x86-64 and aarch64. */
const SIGNALS: readonly (Deno.Signal | undefined)[] = [
  undefined,
  "SIGHUP",
  "SIGINT",
  "SIGQUIT",
  "SIGILL",
  "SIGTRAP",
  "SIGABRT",
  "SIGBUS",
  "SIGFPE",
  "SIGKILL",
  "SIGUSR1",
  "SIGSEGV",
  "SIGUSR2",
  "SIGPIPE",
  "SIGALRM",
  "SIGTERM",
  "SIGSTKFLT",
  "SIGCHLD",
  "SIGCONT",
  "SIGSTOP",
  "SIGTSTP",
  "SIGTTIN",
  "SIGTTOU",
  "SIGURG",
  "SIGXCPU",
  "SIGXFSZ",
  "SIGVTALRM",
  "SIGPROF",
  "SIGWINCH",
  "SIGIO",
  "SIGPWR",
  "SIGSYS",
];

const SIGKILL = 9;

/** What came of a command. */
type Outcome =
  | { readonly kind: "exited"; readonly exit: ExitNotice }
  | { readonly kind: "failed"; readonly failure: ConfineFailure };

/** Follows one command's control connection from its first frame to the end. */
async function follow(
  control: ControlConnection,
  onStarted: (started: StartedNotice) => void,
): Promise<Outcome | null> {
  for (let frame = await control.next(); frame !== null; frame = await control.next()) {
    if (frame.type === FRAME.STARTED) {
      const started = parseStarted(frame.payload);
      if (started === null) return null;
      onStarted(started);
    } else if (frame.type === FRAME.FAILED) {
      const failure = parseFailed(frame.payload);
      return failure === null ? null : { kind: "failed", failure };
    } else if (frame.type === FRAME.EXITED) {
      const exit = parseExited(frame.payload);
      return exit === null ? null : { kind: "exited", exit };
    } else return null;
  }
  return null;
}

/**
 * Starts a command. One that can't be started shows in `end`, with the stage that failed.
 *
 * @throws {MurError} `E-IO-…` when a record can't be written or the control socket can't be opened.
 * @throws When the helper itself can't be started.
 */
export function startConfinedCommand(start: ConfinedStart): ConfinedCommand {
  const begun = performance.now();
  const spec = encodeRecords(start.records);
  if (spec.length > MAX_SPEC_BYTES) {
    throw new MurError("E-IO-003", `a command with ${spec.length} bytes of arguments and grants can't be started`);
  }
  const socket = new ControlSocket(start.controlDirectory);
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command(start.helper, {
      args: ["run", socket.name],
      cwd: socket.directory,
      clearEnv: true,
      env: { ...start.env },
      stdin: start.input === null ? "null" : "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (cause) {
    socket.close();
    throw cause;
  }

  let running = false;
  let killed = false;
  const started = Promise.withResolvers<StartedNotice | null>();
  const kill = () => {
    killed = true;
    // Before the command runs the helper looks at nothing; with its end everything it made so far goes.
    if (running) send(FRAME.KILL);
    else killHelper(child);
  };

  const connected = (async (): Promise<ControlConnection | null> => {
    const tooLate = setTimeout(() => killHelper(child), start.connectMs);
    // A helper that ends without connecting ends the wait.
    void child.status.then(() => socket.close());
    const connection = await socket.accept();
    clearTimeout(tooLate);
    socket.close();
    if (connection === null) return null;
    const control = new ControlConnection(connection);
    // Before anything else is sent.
    void control.send(FRAME.SPEC, spec);
    return control;
  })();
  const send = (type: FrameType, payload?: Uint8Array) =>
    void connected.then((control) => control?.send(type, payload));

  const outcome = (async (): Promise<Outcome | null> => {
    const control = await connected;
    if (control === null) return null;
    return await follow(control, (notice) => {
      running = true;
      started.resolve(notice);
      if (killed) kill();
    });
  })().finally(() => started.resolve(null));

  const fed = start.input === null ? Promise.resolve() : feed(child.stdin, start.input);
  const stdout = new CommandOutput(start.keep, start.spoolDir);
  const stderr = new CommandOutput(start.keep, start.spoolDir);
  const end = (async (): Promise<CommandEnd> => {
    const [result] = await Promise.all([
      outcome,
      drain(child.stdout, (chunk) => stdout.write(chunk)),
      drain(child.stderr, (chunk) => stderr.write(chunk)),
    ]);
    const durationMs = performance.now() - begun;
    const control = await connected;
    await control?.send(FRAME.STOP);
    control?.close();
    await fed;
    await child.status;
    return { ...describeEnd(result, { killed, running }), stdout, stderr, durationMs };
  })();

  return {
    end,
    started: started.promise,
    exit: outcome.then((result) => result?.kind === "exited" ? result.exit : null),
    elapsed: () => performance.now() - begun,
    kill,
    signal: (number) => send(FRAME.SIGNAL, new Uint8Array([number])),
    async release() {
      const control = await connected;
      await control?.send(FRAME.RELEASE);
      control?.unref();
      child.unref();
    },
  };
}

/** How a command ended, from what the helper said. Pure. */
export function describeEnd(
  outcome: Outcome | null,
  { killed, running }: { readonly killed: boolean; readonly running: boolean },
): Pick<CommandEnd, "failure" | "exitCode" | "signal" | "resourceLimit"> {
  const none = { failure: null, signal: null, resourceLimit: null } as const;
  if (outcome?.kind === "failed") return { ...none, failure: outcome.failure, exitCode: -1 };
  if (outcome === null) {
    // By us, and then nothing failed.
    if (killed) return { ...none, exitCode: 128 + SIGKILL, signal: "SIGKILL" };
    const reason = running ? "it ended while the command ran, and the command with it" : "it ended without a word";
    return { ...none, failure: { stage: "helper", reason }, exitCode: -1 };
  }
  const { bySignal, value, limit } = outcome.exit;
  if (!bySignal) return { ...none, exitCode: value, resourceLimit: limitOf(limit, null) };
  const signal = SIGNALS[value] ?? null;
  return { ...none, exitCode: 128 + value, signal, resourceLimit: limitOf(limit, signal) };
}

const WATCHED: readonly WatchedLimit[] = ["memory_bytes", "cgroup_memory_bytes", "cgroup_pids_max"];

function limitOf(told: string, signal: Deno.Signal | null): ExceededLimit | null {
  const watched = WATCHED.find((name) => name === told);
  if (watched !== undefined) return watched;
  if (signal === "SIGXCPU") return "cpu_seconds";
  return signal === "SIGXFSZ" ? "max_file_size_bytes" : null;
}

function killHelper(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended.
  }
}

/** Writes all of a command's input and closes it; a command need not read it. */
async function feed(stdin: WritableStream<Uint8Array<ArrayBuffer>>, input: Uint8Array<ArrayBuffer>): Promise<void> {
  const writer = stdin.getWriter();
  try {
    await writer.write(input);
  } catch {
    // It has closed its input.
  }
  await writer.close().catch(() => {});
}

async function drain(stream: ReadableStream<Uint8Array<ArrayBuffer>>, take: (chunk: Uint8Array<ArrayBuffer>) => void) {
  for await (const chunk of stream) take(chunk);
}
