/**
 * Streams of events over a session's frames: of one task, and of all (spec door 12.1, 12.6, 12.7).
 *
 * @module
 */
import type { Frame, FrameLog } from "../session/frame_log.ts";
import type { TaskRegistry, TaskView } from "../session/task_registry.ts";
import { FrameQueue } from "./frame_queue.ts";
import {
  endEvents,
  frameEvents,
  type Notice,
  type RawEvent,
  rawFrameEvent,
  snapshotEvent,
  type StreamEvent,
  taskNoticeEvent,
  watchNoticeEvent,
} from "./stream_events.ts";

/** An open stream. Whoever took it closes it, read or not. */
export interface OpenStream<Event> {
  readonly events: AsyncGenerator<Event, void, undefined>;
  /** Ends it, also while an event is waited for. */
  close(): void;
}

/** What streams read. */
export interface StreamSource {
  readonly tasks: Pick<TaskRegistry, "find">;
  readonly frames: FrameLog;
}

/** Id after which a reader resumes; `null` when the header names none (spec door 12.6). */
export function lastEventId(header: string | null): number | null {
  return header !== null && /^[0-9]+$/.test(header) ? Number(header) : null;
}

/** A subscription to one task's frames, taken before its message is routed so that no frame is missed. */
export class TaskSubscription {
  readonly #source: StreamSource;
  readonly #queue: FrameQueue;
  #taskId: string | null;

  /** @param taskId `null`: named later with {@linkcode open}. */
  constructor(source: StreamSource, taskId: string | null) {
    this.#source = source;
    this.#taskId = taskId;
    this.#queue = new FrameQueue(source.frames, (frame) => frame.taskId === this.#taskId);
  }

  /** Gives the task's kept frames after an id first; called before the message is routed, or they would come twice. */
  replay(afterId: number | null): void {
    if (afterId !== null) this.#queue.replay(afterId, (frame) => frame.taskId === this.#taskId);
  }

  /** The message was refused. */
  abandon(): void {
    this.#queue.close();
  }

  /** The stream of the task as it now stands. */
  open(task: TaskView): OpenStream<StreamEvent> {
    this.#taskId = task.id;
    return { events: this.#events(task), close: () => this.#queue.close() };
  }

  async *#events(task: TaskView): AsyncGenerator<StreamEvent, void, undefined> {
    const present = () => this.#source.tasks.find(task.id, null) ?? task;
    try {
      yield snapshotEvent(task);
      for (;;) {
        const item = await this.#queue.next();
        if (item === null || item.kind === "closed") return;
        if (item.kind === "frame") {
          yield* frameEvents(item.frame, task.contextId);
          if (item.frame.type === "status" && item.frame.final) return;
          continue;
        }
        yield taskNoticeEvent(
          present(),
          item.kind === "gap"
            ? { type: "gap", payload: { first_available_id: item.firstAvailableId } }
            : { type: "lagged", payload: { missed: item.missed } },
        );
        if (this.#queue.lostFinal) {
          yield* endEvents(present());
          return;
        }
      }
    } finally {
      this.#queue.close();
    }
  }
}

/** The stream of a task that was refused for room: the task, its final status, the end. */
export function rejectedStream(task: TaskView): OpenStream<StreamEvent> {
  async function* events(): AsyncGenerator<StreamEvent, void, undefined> {
    yield snapshotEvent(task);
    yield* endEvents(task);
  }
  return { events: events(), close: () => {} };
}

/** How the events of a session's stream are made. */
interface WatchForm<Event> {
  frame(frame: Frame): Iterable<Event>;
  notice(notice: Notice, number: number): Event;
}

function watch<Event>(
  source: StreamSource,
  conversation: "stateless" | "threaded",
  after: number | null,
  form: WatchForm<Event>,
): OpenStream<Event> {
  const queue = new FrameQueue(source.frames, () => true);
  queue.replay(after ?? 0, () => true);
  async function* events(): AsyncGenerator<Event, void, undefined> {
    let notices = 0;
    const notice = (notice: Notice) => form.notice(notice, ++notices);
    try {
      yield notice({
        type: "connection-ack",
        payload: { role: "observer", conversation_mode: conversation },
      });
      for (;;) {
        const item = await queue.next();
        switch (item?.kind) {
          case undefined:
            return;
          case "frame":
            yield* form.frame(item.frame);
            break;
          case "gap":
            yield notice({ type: "gap", payload: { first_available_id: item.firstAvailableId } });
            break;
          case "lagged":
            yield notice({ type: "lagged", payload: { missed: item.missed } });
            break;
          case "closed":
            yield notice({ type: "capsule-closed", payload: {} });
            return;
        }
      }
    } finally {
      queue.close();
    }
  }
  return { events: events(), close: () => queue.close() };
}

/** Every frame of the session in the A2A envelope. @param after Id after which to start; `null`: from the first kept. */
export function watchStream(
  source: StreamSource,
  conversation: "stateless" | "threaded",
  after: number | null,
): OpenStream<StreamEvent> {
  const contextOf = (frame: Frame) =>
    frame.type === "status" ? frame.contextId : source.tasks.find(frame.taskId, null)?.contextId ?? "";
  return watch(source, conversation, after, {
    frame: (frame) => frameEvents(frame, contextOf(frame)),
    notice: watchNoticeEvent,
  });
}

/** Every frame of the session as it is. */
export function rawWatchStream(
  source: StreamSource,
  conversation: "stateless" | "threaded",
  after: number | null,
): OpenStream<RawEvent> {
  return watch(source, conversation, after, {
    frame: (frame) => [rawFrameEvent(frame)],
    notice: ({ type, payload }) => ({ id: null, type, payload }),
  });
}
