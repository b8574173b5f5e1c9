/**
 * `wasi:cli`, `wasi:clocks` and `wasi:random` 0.2 on the host's side (spec components 3.3, 3.5): the environment the call
 * names and nothing else, stdio as frames, the machine's clocks, fresh randomness.
 *
 * @module
 */
import { MessageType } from "../frames.ts";
import { monotonicMs, type Pipe } from "./pipe.ts";
import { ALWAYS_READY, closed, emptyInput, InputStream, OutputStream, Pollable, pollableAt } from "./streams.ts";

/** Most bytes of a tool's or driver's output that are passed on per call (spec components 3.5). */
export const MAX_STDIO_BYTES = 1 << 20;

/** The guest ended itself. */
export class GuestExit extends Error {
  override readonly name = "GuestExit";
  readonly status: number;

  constructor(status: number) {
    super(`the guest exited with status ${status}`);
    this.status = status;
  }
}

/** What a call gives a guest of the system. */
export interface SystemContext {
  readonly environment: readonly (readonly [string, string])[];
  /** A script capsule: reads the runtime's input, and its output has no bound. */
  readonly ownsStdio: boolean;
}

/** A terminal no guest ever has. */
class Terminal {
  [Symbol.dispose](): void {}
}

class TerminalInput extends Terminal {}
class TerminalOutput extends Terminal {}

/** Counts what a call wrote beyond the bound. */
export interface OutputCount {
  sent: number;
  dropped: number;
}

function output(pipe: Pipe, stream: "stdout" | "stderr", bound: number, count: OutputCount): OutputStream {
  return new OutputStream({
    ...ALWAYS_READY,
    room: () => 64 << 10,
    write(bytes) {
      const passed = bytes.subarray(0, Math.max(0, bound - count.sent));
      count.sent += passed.length;
      count.dropped += bytes.length - passed.length;
      if (passed.length > 0) pipe.send(MessageType.output, 0, { stream }, passed);
    },
  });
}

function input(pipe: Pipe): InputStream {
  return new InputStream({
    ...ALWAYS_READY,
    read(max) {
      if (max === 0) return new Uint8Array(0);
      const reply = pipe.request("stdin.read", { max });
      if (reply.header.end === true) throw closed();
      return reply.body;
    },
  });
}

function random(length: bigint): Uint8Array {
  if (length > 64n << 20n) throw new RangeError("more than 64 MiB of random bytes in one call");
  const bytes = new Uint8Array(Number(length));
  for (let at = 0; at < bytes.length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  return bytes;
}

function randomU64(): bigint {
  return crypto.getRandomValues(new BigUint64Array(1))[0]!;
}

/** Nanoseconds of the monotonic clock. */
function monotonicNow(): bigint {
  return BigInt(Math.floor(monotonicMs() * 1e6));
}

function toMs(nanoseconds: bigint): number {
  return Number(nanoseconds) / 1e6;
}

const WALL_RESOLUTION = { seconds: 0n, nanoseconds: 1_000_000 };

/** The interfaces for one call. `count` is read when it ends. */
export function systemInterfaces(pipe: Pipe, context: SystemContext, count: OutputCount) {
  const bound = context.ownsStdio ? Infinity : MAX_STDIO_BYTES;
  const exit = (status: number): never => {
    throw new GuestExit(status);
  };
  return {
    "wasi:cli/environment": {
      getEnvironment: () => context.environment.map(([name, value]) => [name, value]),
      getArguments: () => [],
      initialCwd: () => undefined,
    },
    "wasi:cli/exit": {
      exit: (status: { tag: "ok" | "err" }) => exit(status.tag === "ok" ? 0 : 1),
      exitWithCode: (code: number) => exit(code),
    },
    "wasi:cli/stdin": { getStdin: () => context.ownsStdio ? input(pipe) : emptyInput() },
    "wasi:cli/stdout": { getStdout: () => output(pipe, "stdout", bound, count) },
    "wasi:cli/stderr": { getStderr: () => output(pipe, "stderr", bound, count) },
    "wasi:cli/terminal-input": { TerminalInput },
    "wasi:cli/terminal-output": { TerminalOutput },
    "wasi:cli/terminal-stdin": { getTerminalStdin: () => undefined },
    "wasi:cli/terminal-stdout": { getTerminalStdout: () => undefined },
    "wasi:cli/terminal-stderr": { getTerminalStderr: () => undefined },
    "wasi:clocks/monotonic-clock": {
      now: monotonicNow,
      resolution: () => 1_000n,
      subscribeInstant: (when: bigint): Pollable => pollableAt(toMs(when)),
      subscribeDuration: (length: bigint): Pollable => pollableAt(monotonicMs() + toMs(length)),
    },
    "wasi:clocks/wall-clock": {
      now: () => {
        const ms = Date.now();
        return { seconds: BigInt(Math.floor(ms / 1000)), nanoseconds: (ms % 1000) * 1_000_000 };
      },
      resolution: () => WALL_RESOLUTION,
    },
    "wasi:clocks/timezone": {
      display: () => ({ utcOffset: 0, name: "UTC", inDaylightSavingTime: false }),
      utcOffset: () => 0,
    },
    "wasi:random/random": { getRandomBytes: random, getRandomU64: randomU64 },
    "wasi:random/insecure": { getInsecureRandomBytes: random, getInsecureRandomU64: randomU64 },
    "wasi:random/insecure-seed": { insecureSeed: () => [randomU64(), randomU64()] },
  };
}
