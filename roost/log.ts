/**
 * The daemon's log: a JSON object a line on standard error, written in the background. A reader that does not read never
 * holds up a request; what does not fit is dropped and counted.
 *
 * @module
 */

/** Where lines go. */
export interface LogSink {
  write(bytes: Uint8Array): Promise<number>;
}

/** A log that is written to. */
export interface Log {
  /** Notes an event. Its values hold no token. */
  readonly event: (event: object) => void;
  /** Waits until everything was written, for `ms` milliseconds at most. */
  flush(ms: number): Promise<void>;
}

/** Most text that waits to be written, in characters. */
const MAX_WAITING = 256 * 1024;

/** How long lines are gathered, in milliseconds. */
const GATHER_MS = 5;

/** What JSON leaves as it is, and a terminal might act on. Line feeds are ours. */
const NOT_PRINTABLE = /[^\x20-\x7e\n]/g;
const DELETE = 0x7f;

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** A log on a sink. */
export function createLog(sink: LogSink, now: () => number = Date.now): Log {
  const encoder = new TextEncoder();
  let lastMs = NaN;
  let lastStart = "";
  let waiting = "";
  let dropped = 0;
  let writing: Promise<void> | null = null;

  /** Start of a line; many share their millisecond. */
  function stamped(): string {
    const ms = now();
    if (ms !== lastMs) {
      lastMs = ms;
      lastStart = `{"time":"${new Date(ms).toISOString()}"`;
    }
    return lastStart;
  }

  /** The bytes of lines of JSON; as good as every one is ASCII, a byte a character. */
  function printable(text: string): Uint8Array<ArrayBuffer> {
    const bytes = encoder.encode(text);
    if (bytes.length === text.length && !bytes.includes(DELETE)) return bytes;
    return encoder.encode(text.replaceAll(NOT_PRINTABLE, escaped));
  }

  async function write(): Promise<void> {
    // Many requests make one write.
    await new Promise((resolve) => setTimeout(resolve, GATHER_MS));
    while (waiting !== "") {
      const text = waiting;
      waiting = "";
      try {
        for (let rest = printable(text); rest.length > 0;) rest = rest.subarray(await sink.write(rest));
      } catch {
        // Nobody reads it any more; the daemon goes on.
      }
    }
    writing = null;
  }

  function event(fields: object): void {
    if (waiting.length > MAX_WAITING) {
      dropped++;
      return;
    }
    if (dropped > 0) {
      waiting += `${stamped()},"event":"dropped","lines":${dropped}}\n`;
      dropped = 0;
    }
    const line = JSON.stringify(fields);
    waiting += `${stamped()}${line === "{}" ? "" : ","}${line.slice(1)}\n`;
    writing ??= write();
  }

  return {
    event,
    async flush(ms) {
      if (writing === null) return;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const late = new Promise<void>((resolve) => timer = setTimeout(resolve, ms));
      await Promise.race([writing, late]);
      clearTimeout(timer);
    },
  };
}
