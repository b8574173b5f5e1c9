/**
 * A body that is handed to the HTTP server piece by piece as it is taken (spec door 15): handed over whole, the server would
 * keep all of it for a reader that takes nothing.
 *
 * @module
 */

/** A body and the way to end it. */
export interface PiecewiseBody {
  readonly stream: ReadableStream<Uint8Array<ArrayBuffer>>;
  /** Breaks it off; nothing once it is over. */
  cut(): void;
}

/** How a body is written. */
export interface PiecewiseOptions {
  readonly pieceBytes: number;
  /** It is broken off when nothing was taken for so long, in milliseconds. */
  readonly stallMs: number;
  /** Called once, when the last piece was handed over, the reader went away or it was broken off. */
  readonly ended: () => void;
}

/** Makes a body of bytes, which must stay as they are until it has ended. */
export function piecewiseBody(bytes: Uint8Array<ArrayBuffer>, options: PiecewiseOptions): PiecewiseBody {
  const { pieceBytes, stallMs, ended } = options;
  let at = 0;
  let over = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let open: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;
  const end = () => {
    if (over) return;
    over = true;
    clearTimeout(timer);
    ended();
  };
  const cut = () => {
    if (!over) open.error(new DOMException("nobody takes the answer", "AbortError"));
    end();
  };
  const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => void (open = controller),
    pull: (controller) => {
      clearTimeout(timer);
      // A copy, since the server may hold a piece for a reader that takes nothing, and would hold all of the bytes with it.
      controller.enqueue(bytes.slice(at, at + pieceBytes));
      at += pieceBytes;
      if (at < bytes.length) {
        timer = setTimeout(cut, stallMs);
        return;
      }
      controller.close();
      end();
    },
    cancel: end,
  }, { highWaterMark: 0 });
  return { stream, cut };
}
