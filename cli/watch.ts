/**
 * `mur watch`: follows every event of a running session in a terminal (spec cli 13.3).
 *
 * Ctrl-C has its default effect: it ends this process and nothing else. So does a reader that goes away.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { readRecordProcess } from "../base/running_record.ts";
import type { CliContext } from "./context.ts";
import { type DoorClient, DoorRefusal } from "../base/door_client.ts";
import { doorError, rpcError } from "./door_error.ts";
import { doorAtUrl } from "./door_url.ts";
import { followStream } from "./followed_stream.ts";
import { findServingSession, type ServingSession } from "./running_session.ts";
import { streamUpdate } from "../base/stream_events.ts";
import { WatchView } from "./stream_view.ts";
import { UsageError } from "./usage_error.ts";

/** Flags of `mur watch`. */
export interface WatchFlags {
  readonly url?: string;
}

/** Method of the observer's stream (spec door 18.1). */
const WATCH_METHOD = "murmur.WatchStream";

/** Runs the command. @throws {MurError} `E-RUN-022`, `E-RUN-023`, `E-RUN-028`, `E-IO-003`. */
export async function watch(context: CliContext, flags: WatchFlags, address?: string): Promise<number> {
  if (flags.url !== undefined && address !== undefined) {
    throw new UsageError("--url names the door; leave the session out");
  }
  const session: ServingSession | null = flags.url === undefined
    ? await findServingSession(address ?? "@1", context)
    : null;
  const door: DoorClient = session?.door ?? doorAtUrl(flags.url!, context);
  const name = session?.id ?? door.shown;
  const { signal } = new AbortController();

  const open = async (lastEventId: number | null) => {
    // From the first event that is still kept, else behind the last one seen.
    const answer = await door.stream(WATCH_METHOD, {}, { lastEventId: lastEventId ?? 0, signal });
    if (!answer.ok) throw rpcError(answer.failure, `${WATCH_METHOD} at ${name}`);
    return answer.events;
  };
  const first = await open(null).catch((error) => {
    throw error instanceof MurError ? error : doorError(error, name);
  });
  context.stderr.line(
    `watching ${
      session === null ? name : `${name} at ${door.shown}`
    }; Ctrl-C ends the watch, the capsule keeps running`,
  );

  const view = new WatchView(context.stdout, context.stderr);
  const events = followStream({
    first,
    reopen: async (lastEventId) => {
      try {
        return await open(lastEventId);
      } catch (error) {
        throw error instanceof DoorRefusal && error.status !== 503 ? doorError(error, name) : error;
      }
    },
    alive: () => session === null || readRecordProcess(session.record).state === "same",
    lost: (reason) => view.notice(`mur: the stream was lost (${reason}); opening it again`),
    bounds: context.bounds,
    signal,
    name,
  });
  for await (const { response } of events) {
    if (view.show(streamUpdate(response)) || !view.open) return 0;
  }
  return 0;
}
