/**
 * The network of a session: one keeper process that makes and holds it, and hands every connection and every name query
 * of the session's commands to the runtime (spec containment 9.1, 19.2, 19.5). What may pass is decided by whoever is
 * handed them.
 *
 * @module
 */
import { MurError, reasonOf } from "../base/errors.ts";
import { ControlConnection, ControlSocket, FRAME, parseFailed } from "./confine_control.ts";
import { type CommandRecord, encodeRecords } from "./confine_records.ts";

/** Most ports a keeper listens on (spec containment 9.2). */
export const MAX_EGRESS_PORTS = 16;

/** Bytes of the token that later connections present. */
const TOKEN_BYTES = 32;

/** First bytes of a later connection. */
const MAGIC = new TextEncoder().encode("MURC");

/** Magic, token, dialled IPv4 address, port. */
const PREAMBLE_BYTES = MAGIC.length + TOKEN_BYTES + 6;

/** Connections to the socket that have not presented the token yet. */
const MAX_STRANGERS = 256;

/** A TCP connection a command made, not answered yet. */
export interface DialledConnection {
  /** IPv4 address the command dialled, dotted. */
  readonly address: string;
  readonly port: number;
  /** Lets it stand. What is read and written here is the command's. */
  accept(): Promise<Deno.UnixConn>;
  /** Closes it; the command reads the end without a byte. */
  refuse(): void;
}

/** How a keeper is started. */
export interface KeeperStart {
  /** Path of `mur-confine`. */
  readonly helper: string;
  /** Where its control socket lies, as `makeControlDirectory` made it. */
  readonly controlDirectory: string;
  /** TCP ports it listens on; in any order, at most {@linkcode MAX_EGRESS_PORTS}. */
  readonly ports: readonly number[];
  /** Each connection is answered once. A call that fails refuses it. */
  readonly onConnection: (connection: DialledConnection) => void | Promise<void>;
  /**
   * A DNS message and the address it was sent to. Answers with the reply's bytes; `null` sends none. Called for several
   * queries at once.
   */
  readonly onQuery: (message: Uint8Array<ArrayBuffer>, address: string) => Promise<Uint8Array | null>;
  /** Milliseconds until its listeners must stand. */
  readonly startMs: number;
  /** Milliseconds a connection may take to present the token. */
  readonly preambleMs: number;
}

function dotted(bytes: Uint8Array): string {
  return Array.from(bytes.subarray(0, 4)).join(".");
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) difference |= a[i]! ^ (b[i] ?? 0);
  return difference === 0;
}

/** Reads what a later connection begins with; `null` when it is not the keeper's. Pure. */
export function parsePreamble(
  bytes: Uint8Array,
  token: Uint8Array,
): { readonly address: string; readonly port: number } | null {
  if (bytes.length !== PREAMBLE_BYTES || !sameBytes(bytes.subarray(0, MAGIC.length), MAGIC)) return null;
  if (!sameBytes(bytes.subarray(MAGIC.length, MAGIC.length + TOKEN_BYTES), token)) return null;
  const rest = bytes.subarray(MAGIC.length + TOKEN_BYTES);
  return { address: dotted(rest), port: rest[4]! << 8 | rest[5]! };
}

/** A session's network. */
export class NetworkKeeper {
  /** Pid of the keeper, as this process sees it. */
  readonly pid: number;
  /** Inode number of its network namespace. */
  readonly network: number;
  /** Resolves when the keeper is gone, by whatever way; then the next command needs another. */
  readonly ended: Promise<void>;
  readonly #child: Deno.ChildProcess;
  readonly #control: ControlConnection;
  readonly #socket: ControlSocket;
  readonly #token: Uint8Array;
  readonly #start: KeeperStart;
  readonly #strangers = new Set<Deno.UnixConn>();
  #gone = false;

  private constructor(
    start: KeeperStart,
    child: Deno.ChildProcess,
    socket: ControlSocket,
    control: ControlConnection,
    token: Uint8Array,
    ready: Uint8Array,
  ) {
    const view = new DataView(ready.buffer, ready.byteOffset, ready.byteLength);
    this.pid = view.getUint32(0, true);
    this.network = Number(view.getBigUint64(4, true));
    this.#start = start;
    this.#child = child;
    this.#socket = socket;
    this.#control = control;
    this.#token = token;
    void this.#acceptConnections();
    this.ended = this.#serveControl();
  }

  /**
   * Starts a keeper and waits until its listeners stand.
   *
   * @throws {MurError} `E-CAP-005` when this host gives no network namespace; `E-IO-…` when the helper can't be used.
   */
  static async start(start: KeeperStart): Promise<NetworkKeeper> {
    const token = crypto.getRandomValues(new Uint8Array(TOKEN_BYTES));
    const hex = Array.from(token, (byte) => byte.toString(16).padStart(2, "0")).join("");
    const ports = [...new Set(start.ports)].sort((a, b) => a - b).map((port) => ({ op: "port", port } as const));
    const spec = encodeRecords([{ op: "token", hex }, ...ports]);
    const socket = new ControlSocket(start.controlDirectory);
    let child: Deno.ChildProcess;
    try {
      child = new Deno.Command(start.helper, {
        args: ["keeper", socket.path],
        clearEnv: true,
        stdin: "null",
        stdout: "null",
        stderr: "null",
      }).spawn();
    } catch (cause) {
      socket.close();
      throw new MurError("E-IO-003", `the containment helper ${start.helper} can't be run: ${reasonOf(cause)}`, {
        cause,
      });
    }
    let control: ControlConnection | null = null;
    const giveUp = () => {
      kill(child);
      socket.close();
      control?.close();
    };
    const tooLate = setTimeout(giveUp, start.startMs);
    const watched = child.status.then(() => {
      if (control === null) socket.close();
    });
    try {
      const connection = await socket.accept();
      let reason = "it ended without a word";
      if (connection !== null) {
        control = new ControlConnection(connection);
        await control.send(FRAME.SPEC, spec);
        const frame = await control.next();
        if (frame?.type === FRAME.READY && frame.payload.length === 12) {
          return new NetworkKeeper(start, child, socket, control, token, frame.payload);
        }
        const failure = frame?.type === FRAME.FAILED ? parseFailed(frame.payload) : null;
        if (failure !== null) reason = `${failure.stage}: ${failure.reason}`;
      }
      giveUp();
      await watched;
      throw new MurError("E-CAP-005", `this host cannot give the subprocess tree its own network namespace: ${reason}`);
    } finally {
      clearTimeout(tooLate);
    }
  }

  /** The record that puts a command into this network. */
  get join(): CommandRecord {
    return { op: "join", pid: this.pid, netns: this.network };
  }

  /** Whether the keeper is still there, as far as is known. */
  get alive(): boolean {
    return !this.#gone;
  }

  /** Ends the keeper: nothing listens any more, and commands still inside reach nothing. */
  async stop(): Promise<void> {
    this.#gone = true;
    await this.#control.send(FRAME.STOP);
    await this.#child.status;
    await this.ended;
  }

  /** Answers queries until the keeper is gone. */
  async #serveControl(): Promise<void> {
    for (let frame = await this.#control.next(); frame !== null; frame = await this.#control.next()) {
      if (frame.type !== FRAME.DNS || frame.payload.length < 8) break;
      void this.#answer(frame.payload);
    }
    this.#gone = true;
    this.#control.close();
    this.#socket.close();
    for (const stranger of this.#strangers) close(stranger);
    // One that broke the protocol is not waited for.
    kill(this.#child);
    await this.#child.status;
  }

  async #answer(payload: Uint8Array<ArrayBuffer>): Promise<void> {
    const head = payload.slice(0, 8);
    let reply: Uint8Array | null;
    try {
      reply = await this.#start.onQuery(payload.slice(8), dotted(payload.subarray(4)));
    } catch {
      reply = null;
    }
    if (reply === null || this.#gone) return;
    const answer = new Uint8Array(head.length + reply.length);
    answer.set(head);
    answer.set(reply, head.length);
    await this.#control.send(FRAME.DNS, answer);
  }

  async #acceptConnections(): Promise<void> {
    for (let next = await this.#socket.accept(); next !== null; next = await this.#socket.accept()) {
      if (this.#strangers.size >= MAX_STRANGERS) close(next);
      else void this.#meet(next);
    }
  }

  /** Reads the preamble of a connection and hands it on, or closes it. */
  async #meet(connection: Deno.UnixConn): Promise<void> {
    this.#strangers.add(connection);
    const tooLate = setTimeout(() => close(connection), this.#start.preambleMs);
    const bytes = new Uint8Array(PREAMBLE_BYTES);
    let have = 0;
    try {
      while (have < bytes.length) {
        const length = await connection.read(bytes.subarray(have));
        if (length === null) break;
        have += length;
      }
    } catch {
      have = 0;
    } finally {
      clearTimeout(tooLate);
      this.#strangers.delete(connection);
    }
    const dialled = parsePreamble(bytes.subarray(0, have), this.#token);
    if (dialled === null) return close(connection);
    let answered = false;
    try {
      await this.#start.onConnection({
        ...dialled,
        async accept() {
          answered = true;
          await connection.write(new Uint8Array([1]));
          return connection;
        },
        refuse() {
          answered = true;
          close(connection);
        },
      });
    } catch {
      answered = false;
    }
    if (!answered) close(connection);
  }
}

function close(connection: Deno.UnixConn): void {
  try {
    connection.close();
  } catch {
    // Closed before.
  }
}

function kill(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended.
  }
}
