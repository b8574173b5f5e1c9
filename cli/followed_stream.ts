/**
 * A stream that is opened again when its connection is lost (spec cli 13.3): after a second, doubling up to eight times
 * as much, for a minute, and only while the session's process is there.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { HttpError } from "../base/http_error.ts";
import type { TimeBounds } from "../base/time_bounds.ts";
import { type DoorEvent, DoorRefusal, doorTrouble } from "../base/door_client.ts";

/** How a stream is followed. */
export interface FollowedStream {
  /** The open stream. */
  readonly first: AsyncGenerator<DoorEvent, void>;
  /**
   * Opens it again behind the last event seen; `null` when there was none. A {@linkcode HttpError}, or a refusal for lack
   * of room, is tried again; whatever else it throws ends the following.
   */
  reopen(lastEventId: number | null, signal: AbortSignal): Promise<AsyncGenerator<DoorEvent, void>>;
  /** Whether it is worth trying: layers 1 and 2 hold, as far as they can be asked. */
  alive(): boolean;
  /** Told of every loss that is to be mended. */
  lost(reason: string): void;
  readonly bounds: Pick<TimeBounds, "streamReopen" | "streamLost">;
  readonly signal: AbortSignal;
  /** Whose stream it is, for messages. */
  readonly name: string;
}

/** Longest wait, as a multiple of the first. */
const LONGEST_WAIT = 8;

/**
 * The events, across as many connections as it takes. The caller leaves the loop at the event that is the last; the
 * loop ends by itself only when the signal is given.
 *
 * @throws {MurError} `E-IO-003` when the stream is lost for good, naming the last event.
 */
export async function* followStream(options: FollowedStream): AsyncGenerator<DoorEvent, void> {
  const { bounds, signal } = options;
  let lastEventId: number | null = null;
  let events: AsyncGenerator<DoorEvent, void> | null = options.first;
  let wait = bounds.streamReopen;
  let lostAt: number | null = null;
  for (;;) {
    let reason = "the connection ended";
    try {
      events ??= await options.reopen(lastEventId, signal);
      for await (const event of events) {
        if (event.id !== null) lastEventId = event.id;
        // Only an event shows that the connection is of use again.
        lostAt = null;
        wait = bounds.streamReopen;
        yield event;
      }
    } catch (error) {
      if (signal.aborted) return;
      const passing = error instanceof HttpError || (error instanceof DoorRefusal && error.status === 503);
      if (!passing) throw error;
      reason = doorTrouble(error);
    }
    if (signal.aborted) return;
    events = null;
    if (lostAt === null) {
      lostAt = Date.now();
      if (options.alive()) options.lost(reason);
    }
    const over = Date.now() + wait - lostAt > bounds.streamLost;
    if (over || !options.alive()) {
      const at = lastEventId === null ? "before its first event" : `after event ${lastEventId}`;
      throw new MurError("E-IO-003", `the stream of ${options.name} was lost ${at}: ${reason}`, {
        ...(over
          ? {}
          : { hint: "its process has ended without saying goodbye; mur trace show tells what it did last" }),
      });
    }
    await pause(wait, signal);
    if (signal.aborted) return;
    wait = Math.min(wait * 2, bounds.streamReopen * LONGEST_WAIT);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}
