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

/** What a terminal might act on that JSON leaves as it is. */
const UNPRINTABLE = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** A log on a sink. */
export function createLog(sink: LogSink, now: () => Date = () => new Date()): Log {
  const encoder = new TextEncoder();
  let waiting = "";
  let dropped = 0;
  let writing: Promise<void> | null = null;

  async function write(): Promise<void> {
    // One turn of the event loop makes one write.
    await null;
    while (waiting !== "") {
      const text = waiting;
      waiting = "";
      try {
        for (let rest = encoder.encode(text); rest.length > 0;) rest = rest.subarray(await sink.write(rest));
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
    const time = now().toISOString();
    if (dropped > 0) {
      waiting += `${JSON.stringify({ time, event: "dropped", lines: dropped })}\n`;
      dropped = 0;
    }
    const line = JSON.stringify({ time, ...fields });
    waiting += `${line.replaceAll(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)}\n`;
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
