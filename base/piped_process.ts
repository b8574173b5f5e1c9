/**
 * A child process on three plain pipes. Unlike `Deno.Command` it loads no streams and starts in a fraction of the time.
 * What is written goes to the kernel at once as far as the pipe holds it, without a turn of the event loop; megabytes go
 * from another thread, however busy this one is.
 *
 * @module
 */
import { descriptorWatch } from "./descriptor_watch.ts";
import { MurError } from "./errors.ts";
import { type CString, cString, ERRNO, FCNTL, type Libc, libc, MAX_VECTORS, O, POLL } from "./libc.ts";
import { RootedError } from "./rooted_error.ts";

/** Asked for a pipe to the child: code of megabytes then goes in a few writes. */
const PIPE_BYTES = 1 << 20;

/** From so many bytes on another thread writes them. */
const BULK_BYTES = 128 << 10;

/**
 * Threads that write at the same time, of the few that all file access shares: a child that does not read holds one until
 * it is killed. Without one, bytes are written as the pipe takes them.
 */
const MAX_BULK_WRITERS = 4;

/** What a pipe that can be written to takes at once, whatever is in it (`PIPE_BUF`). */
const ATOMIC_BYTES = 4_096;

/** Most bytes taken from a pipe at once. */
const READ_BYTES = 256 << 10;

const SIGKILL = 9;

/** What is started. */
export interface PipedProcessOptions {
  /** Absolute path. */
  readonly command: string;
  readonly args: readonly string[];
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute path of the directory it stands in. */
  readonly cwd: string;
  /** Descriptors of this process that become its 3 and on. It inherits no other that is close-on-exec. */
  readonly descriptors?: readonly number[];
  /** It leads a session of its own: a signal to the group of this process, from a terminal say, is not for it. */
  readonly ownSession?: boolean;
}

/** What is done with the child's output. The bytes are good until the call returns. None of these may throw. */
export interface PipedProcessOutput {
  stdout(bytes: Uint8Array): void;
  /** The output ended, or nothing more will be read. */
  stdoutEnd(): void;
  stderr(bytes: Uint8Array): void;
  stderrEnd(): void;
}

/** How a child ended. */
export interface ExitStatus {
  /** `null` when a signal ended it. */
  readonly code: number | null;
  readonly signal: string | null;
}

let bulkWriters = 0;

/** Bytes read, shared: who is handed them copies what is kept. */
let chunk: Uint8Array<ArrayBuffer> | undefined;

/** One child. */
export class PipedProcess {
  readonly pid: number;
  readonly #c: Libc;
  readonly #stdin: number;
  readonly #queue: Uint8Array[] = [];
  #unwritten = 0;
  #stdinClosed = false;
  /** The input is to be closed once what was given is written. */
  #stdinEnds = false;
  /** Another thread is writing: the descriptor stays open, and nobody else writes. */
  #writing = false;
  #bulk: Promise<void> | null = null;
  #gone = false;
  #exit: Promise<ExitStatus> | null = null;

  /** @throws {MurError} `E-IO-…` when it can't be started. */
  constructor(options: PipedProcessOptions, output: PipedProcessOutput) {
    this.#c = libc();
    const c = this.#c;
    const texts = [options.command, options.cwd, ...options.args].map(stringFor);
    const environment = Object.entries(options.env).map(([name, value]) => stringFor(`${name}=${value}`));
    const opened: number[] = [];
    try {
      const pipe = (): readonly [number, number] => {
        const pair = c.pipe();
        if (typeof pair === "number") throw RootedError.fromResult(pair, "start", options.command);
        opened.push(...pair);
        return pair;
      };
      const [stdin, stdout, stderr] = [pipe(), pipe(), pipe()];
      // A refusal leaves the pipe as it is.
      c.fcntl(stdin[1], FCNTL.SETPIPE_SZ, PIPE_BYTES);
      for (const fd of [stdout[0], stderr[0]]) c.fcntl(fd, FCNTL.SETFL, O.NONBLOCK);
      const [command, cwd, ...args] = texts as [CString, CString, ...CString[]];
      const pid = c.spawn(command, args, environment, cwd, [
        stdin[0],
        stdout[1],
        stderr[1],
        ...options.descriptors ?? [],
      ], options.ownSession);
      if (pid < 0) throw RootedError.fromResult(pid, "start", options.command);
      this.pid = pid;
      this.#stdin = stdin[1];
      for (const fd of [stdin[0], stdout[1], stderr[1]]) c.close(fd);
      this.#read(stdout[0], (bytes) => output.stdout(bytes), () => output.stdoutEnd());
      this.#read(stderr[0], (bytes) => output.stderr(bytes), () => output.stderrEnd());
    } catch (error) {
      for (const fd of opened) c.close(fd);
      throw error;
    }
  }

  /** Bytes given to {@linkcode write} that are not in the pipe yet. */
  get unwritten(): number {
    return this.#unwritten;
  }

  /**
   * Writes bytes to its standard input, now or as it reads. They must stay as they are. A child that closed its input or
   * is gone gets nothing, which its end tells.
   */
  write(bytes: Uint8Array): void {
    if (this.#stdinClosed || this.#stdinEnds || bytes.length === 0) return;
    this.#queue.push(bytes);
    this.#unwritten += bytes.length;
    if (this.#queue.length === 1) this.#flush();
    else if (!this.#writing && this.#unwritten >= BULK_BYTES) this.#flush();
  }

  /** Closes its standard input once all that was given to {@linkcode write} is in the pipe. */
  closeInput(): void {
    this.#stdinEnds = true;
    if (this.#queue.length === 0) this.#closeStdin();
  }

  /** Sends it a signal, by number. One that is gone gets none. */
  signal(number: number): void {
    if (!this.#gone) this.#c.kill(this.pid, number);
  }

  /** Kills it with `SIGKILL`. */
  kill(): void {
    this.signal(SIGKILL);
  }

  /**
   * Waits until it has ended, whatever ended it, and reaps it. No thread is held meanwhile.
   *
   * @throws {MurError} `E-IO-003` when it can't be waited for so; it goes on then, and {@linkcode end} ends it.
   */
  exited(): Promise<ExitStatus> {
    return this.#exit ??= this.#waitForExit();
  }

  #waitForExit(): Promise<ExitStatus> {
    const c = this.#c;
    const fd = c.pidfdOpen(this.pid);
    if (fd < 0) throw RootedError.fromResult(fd, "wait for", `process ${this.pid}`);
    return new Promise((resolve) =>
      descriptorWatch().watch(fd, POLL.IN, () => {
        const status = c.reap(this.pid);
        if (status === null) return;
        descriptorWatch().close(fd);
        // Its number may be another's from here on.
        this.#gone = true;
        this.#closeStdin();
        resolve(exitStatusOf(Math.max(status, 0)));
      })
    );
  }

  /**
   * Kills it, waits until it is gone and closes its input. Called once, when its output ended: no descriptor may be left
   * behind and no process.
   */
  async end(): Promise<ExitStatus> {
    this.kill();
    if (this.#exit !== null) return await this.#exit;
    // Once it is waited for its number may be another's.
    this.#gone = true;
    this.#closeStdin();
    return exitStatusOf(await this.#c.waitElsewhere(this.pid));
  }

  /** Waits, after {@linkcode end}, until no thread reads the bytes given to {@linkcode write}. */
  async inputReleased(): Promise<void> {
    await this.#bulk;
  }

  #flush(): void {
    for (let bytes = this.#queue[0]; bytes !== undefined; bytes = this.#queue[0]) {
      if (this.#unwritten >= BULK_BYTES && bulkWriters < MAX_BULK_WRITERS) {
        return void (this.#bulk = this.#writeElsewhere());
      }
      const events = this.#c.poll(this.#stdin, POLL.OUT, 0);
      // With nobody left to read, the write says so.
      if (events <= 0 || (events & (POLL.OUT | POLL.ERR)) === 0) {
        descriptorWatch().watch(this.#stdin, POLL.OUT, () => {
          descriptorWatch().unwatch(this.#stdin);
          this.#flush();
        });
        return;
      }
      const count = this.#c.write(this.#stdin, bytes.subarray(0, ATOMIC_BYTES) as Uint8Array<ArrayBuffer>);
      if (count === -ERRNO.EINTR) continue;
      if (count < 0) return this.#closeStdin();
      this.#written(count);
    }
  }

  /** Hands all there is to another thread, which comes back when it is in the pipe. */
  async #writeElsewhere(): Promise<void> {
    descriptorWatch().unwatch(this.#stdin);
    this.#writing = true;
    bulkWriters++;
    // What is written in the same stretch goes with it.
    await Promise.resolve();
    const count = await this.#c.writeElsewhere(this.#stdin, this.#queue.slice(0, MAX_VECTORS));
    bulkWriters--;
    this.#writing = false;
    if (this.#stdinClosed) return descriptorWatch().close(this.#stdin);
    // A signal may have interrupted it; a child that is gone is found out by the next write.
    if (count > 0) this.#written(count);
    this.#flush();
  }

  #written(count: number): void {
    this.#unwritten -= count;
    let left = count;
    while (left > 0 && left >= this.#queue[0]!.length) left -= this.#queue.shift()!.length;
    if (left > 0) this.#queue[0] = this.#queue[0]!.subarray(left);
    if (this.#stdinEnds && this.#queue.length === 0) this.#closeStdin();
  }

  #closeStdin(): void {
    if (this.#stdinClosed) return;
    this.#stdinClosed = true;
    this.#queue.length = 0;
    this.#unwritten = 0;
    if (!this.#writing) descriptorWatch().close(this.#stdin);
  }

  #read(fd: number, take: (bytes: Uint8Array) => void, end: () => void): void {
    descriptorWatch().watch(fd, POLL.IN, () => {
      chunk ??= new Uint8Array(READ_BYTES);
      const count = this.#c.read(fd, chunk);
      if (count > 0) return take(chunk.subarray(0, count));
      if (count === -ERRNO.EAGAIN || count === -ERRNO.EINTR) return;
      descriptorWatch().close(fd);
      end();
    });
  }
}

/** What a program wrote, and how it ended. */
export interface CapturedOutput {
  readonly status: ExitStatus;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a short program and keeps what it writes. One that writes more than `maxBytes` is killed.
 *
 * @throws {MurError} `E-IO-…` when it can't be started.
 */
export async function captureOutput(options: PipedProcessOptions, maxBytes: number): Promise<CapturedOutput> {
  const stdout = new Capture();
  const stderr = new Capture();
  const take = (capture: Capture, bytes: Uint8Array) => {
    if (stdout.length + stderr.length + bytes.length > maxBytes) child.kill();
    else capture.take(bytes);
  };
  const child = new PipedProcess(options, {
    stdout: (bytes) => take(stdout, bytes),
    stdoutEnd: () => stdout.end(),
    stderr: (bytes) => take(stderr, bytes),
    stderrEnd: () => stderr.end(),
  });
  await Promise.all([stdout.ended, stderr.ended]);
  const status = await child.end();
  return { status, stdout: stdout.text, stderr: stderr.text };
}

/** One output, kept. */
class Capture {
  readonly #decoder = new TextDecoder();
  readonly ended: Promise<void>;
  /** Tells that nothing follows. */
  readonly end: () => void;
  text = "";
  /** Bytes taken. */
  length = 0;

  constructor() {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    this.end = resolve;
  }

  take(bytes: Uint8Array): void {
    this.length += bytes.length;
    this.text += this.#decoder.decode(bytes, { stream: true });
  }
}

/** @throws {MurError} `E-IO-003` for a text no argument can hold. */
function stringFor(text: string): CString {
  const bytes = cString(text);
  if (bytes === null) throw new MurError("E-IO-003", "an argument or variable of a program holds what none can hold");
  return bytes;
}

/** Names of the signals that end a program, as Linux numbers them. */
const SIGNALS: Readonly<Record<number, string>> = {
  1: "SIGHUP",
  2: "SIGINT",
  3: "SIGQUIT",
  4: "SIGILL",
  5: "SIGTRAP",
  6: "SIGABRT",
  7: "SIGBUS",
  8: "SIGFPE",
  9: "SIGKILL",
  11: "SIGSEGV",
  13: "SIGPIPE",
  14: "SIGALRM",
  15: "SIGTERM",
  24: "SIGXCPU",
  25: "SIGXFSZ",
  31: "SIGSYS",
};

function exitStatusOf(status: number): ExitStatus {
  const signal = status & 0x7f;
  if (signal === 0) return { code: (status >> 8) & 0xff, signal: null };
  return { code: null, signal: SIGNALS[signal] ?? String(signal) };
}
