/**
 * The control connection to a containment helper: a unix socket in a directory of the owner's, one control connection,
 * frames in both directions (spec containment 19.1, 19.2).
 *
 * Nobody's credentials can be asked for here, so the first connection is the control connection and there is only one.
 * Whoever steals it keeps the helper from starting, and that is all.
 *
 * @module
 */
import { ioError, MurError } from "../base/errors.ts";
import { makePrivate } from "../base/private_directory.ts";
import { RootedDir } from "../base/rooted_dir.ts";

/** Kinds of frames, as `control.c` and `confine.h` number them. */
export const FRAME = {
  SPEC: 1,
  READY: 2,
  STARTED: 3,
  FAILED: 4,
  EXITED: 5,
  DNS: 6,
  SIGNAL: 7,
  KILL: 8,
  RELEASE: 9,
  STOP: 10,
} as const;
export type FrameType = typeof FRAME[keyof typeof FRAME];

/** Most bytes of a `SPEC`, as the helper takes it. */
export const MAX_SPEC_BYTES = 8 << 20;

/** Most bytes of any frame a helper sends: a name query and its header. */
const MAX_HELPER_FRAME = 8_192;

const HEADER = 5;

/** A frame's type and payload. */
export interface Frame {
  readonly type: number;
  readonly payload: Uint8Array<ArrayBuffer>;
}

/** Bytes of a frame: length of the payload as 32 bits little-endian, type, payload. */
export function encodeFrame(type: FrameType, payload: Uint8Array = new Uint8Array(0)): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(HEADER + payload.length);
  new DataView(frame.buffer).setUint32(0, payload.length, true);
  frame[4] = type;
  frame.set(payload, HEADER);
  return frame;
}

/** Cuts a stream of bytes into frames. */
export class FrameDecoder {
  #bytes = new Uint8Array(0);

  /**
   * Takes the next bytes and gives the frames that are whole now.
   *
   * @returns `null` when a frame is longer than any helper sends; then nothing more can be understood.
   */
  take(chunk: Uint8Array): Frame[] | null {
    const bytes = new Uint8Array(this.#bytes.length + chunk.length);
    bytes.set(this.#bytes);
    bytes.set(chunk, this.#bytes.length);
    const view = new DataView(bytes.buffer);
    const frames: Frame[] = [];
    let at = 0;
    while (bytes.length - at >= HEADER) {
      const length = view.getUint32(at, true);
      if (length > MAX_HELPER_FRAME) return null;
      if (bytes.length - at < HEADER + length) break;
      frames.push({ type: bytes[at + 4]!, payload: bytes.slice(at + HEADER, at + HEADER + length) });
      at += HEADER + length;
    }
    this.#bytes = bytes.slice(at);
    return frames;
  }
}

/** Why a helper could not set something up (spec containment 19.10). */
export interface ConfineFailure {
  readonly stage: string;
  /** What was tried, then the system's words; after `sealed-root`, `<step> failed: <words>`. */
  readonly reason: string;
}

/** The `STARTED` of a command. */
export interface StartedNotice {
  /** As this process sees it. */
  readonly pid: number;
  /** Whether the command is in its keeper's network; else the keeper was gone and the network is empty. */
  readonly joined: boolean;
}

/** The `EXITED` of a command. */
export interface ExitNotice {
  /** Exit status, or the number of the signal. */
  readonly value: number;
  readonly bySignal: boolean;
  readonly userMs: number;
  readonly systemMs: number;
  /** Largest resident size of one of its processes. */
  readonly maxResidentBytes: number;
  /** Name of the limit the helper killed for; empty when for none. */
  readonly limit: string;
}

function viewOf(payload: Uint8Array): DataView {
  return new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
}

function stringsOf(payload: Uint8Array): string[] {
  const texts = new TextDecoder().decode(payload).split("\0");
  // Each one ends in NUL.
  texts.pop();
  return texts;
}

/** Reads a `FAILED`; `null` when it is none. */
export function parseFailed(payload: Uint8Array): ConfineFailure | null {
  if (payload.length < 4) return null;
  const [stage, step, words] = stringsOf(payload.subarray(4));
  if (stage === undefined || step === undefined || words === undefined) return null;
  if (stage === "sealed-root") return { stage, reason: `${step} failed: ${words}` };
  return { stage, reason: [step, words].filter((text) => text !== "").join(": ") };
}

/** Reads a `STARTED`; `null` when it is none. */
export function parseStarted(payload: Uint8Array): StartedNotice | null {
  if (payload.length !== 5) return null;
  return { pid: viewOf(payload).getUint32(0, true), joined: payload[4] === 1 };
}

/** Reads an `EXITED`; `null` when it is none. */
export function parseExited(payload: Uint8Array): ExitNotice | null {
  if (payload.length < 30) return null;
  const view = viewOf(payload);
  const [limit] = stringsOf(payload.subarray(29));
  if (limit === undefined) return null;
  return {
    bySignal: payload[0] === 1,
    value: view.getInt32(1, true),
    userMs: Number(view.getBigUint64(5, true)) / 1_000,
    systemMs: Number(view.getBigUint64(13, true)) / 1_000,
    maxResidentBytes: Number(view.getBigUint64(21, true)),
    limit,
  };
}

/** Longest path a unix socket may have, with room for systems that allow little. */
const MAX_SOCKET_PATH = 100;

/** Wait before a connection that the system could not give is asked for again, in milliseconds. */
const RETRY_MS = 50;

/** Characters of a socket's name: 96 random bits. */
const SOCKET_NAME = 24;

/**
 * Makes the directory of control sockets, 0700.
 *
 * @throws {MurError} `E-IO-003` when it is another's; `E-IO-…` as the file system says.
 */
export function makeControlDirectory(directory: string): void {
  try {
    makePrivate(directory);
    const stat = Deno.lstatSync(directory);
    if (!stat.isDirectory || stat.uid !== Deno.uid() || ((stat.mode ?? 0o777) & 0o077) !== 0) {
      throw new MurError("E-IO-003", `${directory} is not a directory of yours alone`, {
        hint: "remove it, or take away the rights of group and others",
      });
    }
  } catch (cause) {
    throw cause instanceof MurError ? cause : ioError(`make ${directory}`, cause);
  }
}

/** A socket a helper connects to. */
export class ControlSocket implements Disposable {
  /** Directory the helper is started in. */
  readonly directory: string;
  /** Its name there, as the helper is given it: the whole path may be longer than a socket's can be. */
  readonly name: string;
  readonly #listener: Deno.UnixListener;

  /**
   * @param directory As {@linkcode makeControlDirectory} made it.
   * @throws {MurError} `E-IO-…` when it can't be opened.
   */
  constructor(directory: string) {
    const random = crypto.getRandomValues(new Uint8Array(SOCKET_NAME / 2));
    this.directory = directory;
    this.name = Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
    try {
      this.#listener = listenIn(directory, this.name);
    } catch (cause) {
      throw cause instanceof MurError ? cause : ioError(`listen in ${directory}`, cause);
    }
  }

  /** The next connection; `null` once the socket is closed. */
  async accept(): Promise<Deno.UnixConn | null> {
    for (;;) {
      try {
        return await this.#listener.accept();
      } catch (cause) {
        if (cause instanceof Deno.errors.BadResource || cause instanceof Deno.errors.Interrupted) return null;
        // The socket itself is well. Someone hung up while waiting, or the system has no descriptor left for the moment.
        if (!(cause instanceof Deno.errors.ConnectionAborted)) {
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        }
      }
    }
  }

  /** Closes the socket and removes its name. Connections that stand go on. */
  close(): void {
    try {
      this.#listener.close();
    } catch {
      // Closed before.
    }
    try {
      Deno.removeSync(`${this.directory}/${this.name}`);
    } catch {
      // Removed before, or with its directory.
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * Listens under a name in a directory. Where the path is too long for a socket, the directory is named by its descriptor:
 * a home may lie anywhere, and no second place has to be cleaned up after a crash.
 */
function listenIn(directory: string, name: string): Deno.UnixListener {
  const path = `${directory}/${name}`;
  if (new TextEncoder().encode(path).length <= MAX_SOCKET_PATH) return Deno.listen({ transport: "unix", path });
  if (Deno.build.os !== "linux") {
    throw new MurError("E-IO-003", `${path} is too long for the path of a socket`, {
      hint: "set HOME to a directory with a shorter path",
    });
  }
  using held = RootedDir.open(directory, { symlinks: "refuse" });
  return Deno.listen({ transport: "unix", path: `/proc/self/fd/${held.fd}/${name}` });
}

/** One control connection. */
export class ControlConnection {
  readonly #connection: Deno.UnixConn;
  readonly #decoder = new FrameDecoder();
  readonly #frames: Frame[] = [];
  readonly #buffer = new Uint8Array(16_384);
  #ended = false;
  #writing: Promise<boolean> = Promise.resolve(true);

  constructor(connection: Deno.UnixConn) {
    this.#connection = connection;
  }

  /** Sends a frame after those sent before. Resolves to whether the helper is still there to take it. */
  send(type: FrameType, payload?: Uint8Array): Promise<boolean> {
    const frame = encodeFrame(type, payload);
    return this.#writing = this.#writing.then(async (open) => {
      if (!open) return false;
      try {
        for (let rest = frame; rest.length > 0;) rest = rest.subarray(await this.#connection.write(rest));
        return true;
      } catch {
        return false;
      }
    });
  }

  /** The next frame; `null` when the connection is over, or can't be understood. */
  async next(): Promise<Frame | null> {
    for (;;) {
      const frame = this.#frames.shift();
      if (frame !== undefined) return frame;
      if (this.#ended) return null;
      let length: number | null;
      try {
        length = await this.#connection.read(this.#buffer);
      } catch {
        length = null;
      }
      const frames = length === null ? null : this.#decoder.take(this.#buffer.subarray(0, length));
      if (frames === null) this.#ended = true;
      else this.#frames.push(...frames);
    }
  }

  /** Lets this process end while the connection stands. */
  unref(): void {
    this.#connection.unref();
  }

  /** Hangs up. */
  close(): void {
    this.#ended = true;
    try {
      this.#connection.close();
    } catch {
      // Closed before.
    }
  }
}
