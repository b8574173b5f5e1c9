/**
 * What one reader of a session's frames has not been given yet (spec door 12.6, 12.7). It never holds the writer up: a reader
 * that falls behind loses the oldest frames and is told how many.
 *
 * The queue keeps ids, not frames. A frame it can no longer look up counts as lost, so readers that stopped reading hold no
 * memory beside the log's own.
 *
 * @module
 */
import type { Frame, FrameLog } from "../session/frame_log.ts";

/** Undelivered frames of one reader. */
export const QUEUE_FRAMES = 128;

/** What a reader gets next. */
export type QueueItem =
  | { readonly kind: "frame"; readonly frame: Frame }
  /** Frames are lost that were never in this queue: the oldest one left has this id. */
  | { readonly kind: "gap"; readonly firstAvailableId: number }
  /** So many frames were lost since the last item. */
  | { readonly kind: "lagged"; readonly missed: number }
  /** The session ended in order; nothing follows. */
  | { readonly kind: "closed" };

/** The queue of one reader, filled from its construction on. */
export class FrameQueue {
  readonly #log: FrameLog;
  readonly #unsubscribe: () => void;
  #gap: number | null = null;
  #replay: number[] = [];
  #live: number[] = [];
  #missed = 0;
  #sawFinal = false;
  #sessionEnded = false;
  #closed = false;
  #wake: (() => void) | null = null;

  /** @param accepts Which frames the reader is for. */
  constructor(log: FrameLog, accepts: (frame: Frame) => boolean) {
    this.#log = log;
    this.#unsubscribe = log.subscribe((frame) => {
      if (!accepts(frame)) return;
      if (frame.type === "status" && frame.final) this.#sawFinal = true;
      this.#live.push(frame.id);
      if (this.#live.length > QUEUE_FRAMES) {
        this.#live.shift();
        this.#missed++;
      }
      this.#wake?.();
    }, () => {
      this.#sessionEnded = true;
      this.#wake?.();
    });
  }

  /** Gives, before everything that is published from now on, the kept frames after an id. */
  replay(afterId: number, accepts: (frame: Frame) => boolean): void {
    const { gap, frames } = this.#log.replay(afterId);
    this.#gap = gap;
    this.#replay = frames.filter(accepts).map(({ id }) => id);
  }

  /** Whether a final status was published for the reader and nothing is left to read: it was lost. */
  get lostFinal(): boolean {
    return this.#sawFinal && this.#replay.length === 0 && this.#live.length === 0;
  }

  /** The next item; waits for it. `null` once the reader is closed. */
  async next(): Promise<QueueItem | null> {
    for (;;) {
      if (this.#closed) return null;
      if (this.#gap !== null) {
        const item: QueueItem = { kind: "gap", firstAvailableId: this.#gap };
        this.#gap = null;
        return item;
      }
      const queue = this.#replay.length > 0 ? this.#replay : this.#live;
      const frame = queue.length === 0 ? null : this.#log.frame(queue[0]!);
      if (frame === undefined) {
        queue.shift();
        this.#missed++;
        continue;
      }
      if (this.#missed > 0) {
        const item: QueueItem = { kind: "lagged", missed: this.#missed };
        this.#missed = 0;
        return item;
      }
      if (frame !== null) {
        queue.shift();
        return { kind: "frame", frame };
      }
      if (this.#sessionEnded) return { kind: "closed" };
      await new Promise<void>((resolve) => this.#wake = resolve);
      this.#wake = null;
    }
  }

  /** The reader is gone. Safe to repeat. */
  close(): void {
    this.#closed = true;
    this.#unsubscribe();
    this.#wake?.();
  }
}
