/**
 * The body of a stream: server-sent events, a comment every so often, and nothing written faster than the reader reads
 * (spec door 12.3, 12.7).
 *
 * @module
 */

/** A comment that keeps a connection from looking idle. */
const HEARTBEAT = new TextEncoder().encode(":heartbeat\n\n");

/** One event. @param id Number of its frame, `null` for none. @param data One line. */
export function formatEvent(id: number | null, type: string, data: string): string {
  return `${id === null ? "" : `id: ${id}\n`}event: ${type}\ndata: ${data}\n\n`;
}

/** Where events come from. */
export interface EventSource {
  /** Formatted events. The next one is asked for when the last one was taken. */
  readonly events: AsyncIterable<string>;
  /** Ends the events, also while one is waited for. */
  close(): void;
}

/** A stream that is being written. */
export interface OpenEventStream {
  readonly body: ReadableStream<Uint8Array<ArrayBuffer>>;
  /** Breaks it off, whatever the reader has not taken yet. */
  cut(): void;
}

/**
 * Opens a stream. At most one event waits for the reader in it; what else is undelivered stays with the source.
 *
 * @param ended Called once when the stream is over, on either side.
 */
export function openEventStream(source: EventSource, heartbeatMs: number, ended: () => void): OpenEventStream {
  const encoder = new TextEncoder();
  let wanted: (() => void) | null = null;
  let over = false;
  let timer: ReturnType<typeof setInterval> | undefined;
  let open: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;
  const end = () => {
    if (over) return;
    over = true;
    clearInterval(timer);
    source.close();
    wanted?.();
    ended();
  };
  const write = async (controller: typeof open) => {
    for await (const event of source.events) {
      if (over) return;
      controller.enqueue(encoder.encode(event));
      while (!over && controller.desiredSize! <= 0) await new Promise<void>((resolve) => wanted = resolve);
    }
  };
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      open = controller;
      timer = setInterval(() => {
        // A reader that has not even taken the last event needs no sign of life.
        if (controller.desiredSize! > 0) controller.enqueue(HEARTBEAT);
      }, heartbeatMs);
      write(controller).then(() => {
        if (!over) controller.close();
      }, (error) => {
        if (!over) controller.error(error);
      }).finally(end);
    },
    pull: () => wanted?.(),
    cancel: end,
  }, { highWaterMark: 1 });
  return {
    body,
    cut() {
      if (!over) open.error(new DOMException("the session has ended", "AbortError"));
      end();
    },
  };
}
