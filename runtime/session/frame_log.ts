/**
 * The one numbered log of frames a session shows: streams of the door and the terminal subscribe to it alike (spec door
 * 12.2, 12.5, 12.6; spec session 9.9).
 *
 * A subscriber is told of each frame as it is published and must not block; whoever needs to wait queues for itself.
 *
 * @module
 */

/** State of a task in words (spec door 8.2). */
export type TaskState = "submitted" | "working" | "input-required" | "completed" | "failed" | "canceled" | "rejected";

/** States a task never leaves. */
export type FinalTaskState = "completed" | "failed" | "canceled" | "rejected";

/** Whether a task in this state has ended. */
export function isFinalState(state: TaskState): state is FinalTaskState {
  return state === "completed" || state === "failed" || state === "canceled" || state === "rejected";
}

/** A task's state changed, or it went a step further. */
export interface StatusFrame {
  readonly type: "status";
  readonly taskId: string;
  readonly contextId: string;
  readonly state: TaskState;
  readonly message: string;
  /** The answer, on `completed`. */
  readonly response?: string;
  /** On the first status of another attempt: number of the reopen, counted from 1. */
  readonly reopen?: number;
  readonly final: boolean;
}

/** One tool call was dispatched. */
export interface ArtifactFrame {
  readonly type: "artifact";
  readonly taskId: string;
  readonly toolName: string;
  /** What the model received, fence included. */
  readonly content: string;
  readonly fenceSource: string | null;
  /** The provider's id of the call. */
  readonly toolCallId: string | null;
  readonly isError: boolean;
  readonly durationMs: number | null;
  /** Of a subprocess that ran to its end. */
  readonly exitCode: number | null;
  readonly truncated: boolean;
}

/** A piece of the model's text, or `final` with what was not streamed. */
export interface TextFrame {
  readonly type: "text" | "thinking";
  readonly taskId: string;
  readonly text: string;
  readonly final: boolean;
}

/** The model began to write a call. */
export interface ToolCallStartedFrame {
  readonly type: "tool-call-started";
  readonly taskId: string;
  readonly toolCallId: string;
  readonly toolName: string;
}

/** The model has written so much of a call's input. */
export interface ToolCallProgressFrame {
  readonly type: "tool-call-progress";
  readonly taskId: string;
  readonly toolCallId: string;
  readonly inputBytes: number;
}

/** What a frame says. */
export type FrameBody = StatusFrame | ArtifactFrame | TextFrame | ToolCallStartedFrame | ToolCallProgressFrame;

/** A published frame. Ids count from 1 over all tasks and types and never repeat; `atMs` is when, in Unix milliseconds. */
export type Frame = { readonly id: number; readonly atMs: number } & FrameBody;

/** Frames kept for a reader that comes back (spec door 12.6). */
export const REPLAY_FRAMES = 512;

/**
 * Characters of all kept frames together: one frame may hold a guest's 64 MiB, and the runtime must outlive 512 of them.
 * The newest frame is kept whatever its size, so that a reader who keeps up gets it.
 */
export const REPLAY_CHARACTERS = 32 << 20;

function sizeOf(body: FrameBody): number {
  switch (body.type) {
    case "status":
      return body.message.length + (body.response?.length ?? 0);
    case "artifact":
      return body.content.length;
    case "text":
    case "thinking":
      return body.text.length;
    default:
      return 0;
  }
}

/** What a reader gets that saw everything up to some id. */
export interface Replay {
  /** Oldest id that is left, when frames in between are lost or the reader's id was never issued. */
  readonly gap: number | null;
  readonly frames: readonly Frame[];
}

/** The frames of one session. */
export class FrameLog {
  readonly #kept: { readonly frame: Frame; readonly size: number }[] = [];
  #keptCharacters = 0;
  readonly #subscribers = new Set<(frame: Frame) => void>();
  readonly #watchers = new Set<(body: FrameBody) => void>();
  readonly #closed = new Set<() => void>();
  #lastId = 0;
  #isClosed = false;

  /** Id of the newest frame; 0 before the first. */
  get lastId(): number {
    return this.#lastId;
  }

  /** Numbers a frame, keeps it and tells every reader. */
  publish(body: FrameBody): Frame {
    const frame: Frame = { id: ++this.#lastId, atMs: Date.now(), ...body };
    const size = sizeOf(body);
    this.#kept.push({ frame, size });
    this.#keptCharacters += size;
    while (
      this.#kept.length > REPLAY_FRAMES || (this.#keptCharacters > REPLAY_CHARACTERS && this.#kept.length > 1)
    ) {
      this.#keptCharacters -= this.#kept.shift()!.size;
    }
    for (const subscriber of this.#subscribers) subscriber(frame);
    if (body.type === "status") { for (const watcher of this.#watchers) watcher(body); }
    return frame;
  }

  /** Tells the terminal alone: chunks of a task that did not come over the door reach no stream (spec door 12.2). */
  show(body: FrameBody): void {
    for (const watcher of this.#watchers) watcher(body);
  }

  /**
   * Tells a piece of text to whom it concerns: streams carry that of tasks that came over the door, the terminal shows the
   * others' (spec door 12.2).
   */
  tell(frame: TextFrame, { overDoor }: { readonly overDoor: boolean }): void {
    if (overDoor) this.publish(frame);
    else this.show(frame);
  }

  /** A frame that is still kept. */
  frame(id: number): Frame | undefined {
    const oldest = this.#kept[0]?.frame.id;
    return oldest === undefined ? undefined : this.#kept[id - oldest]?.frame;
  }

  /** What a reader missed that has seen everything up to `id` (spec door 12.6). */
  replay(id: number): Replay {
    const oldest = this.#kept[0]?.frame.id;
    if (oldest === undefined) return { gap: null, frames: [] };
    if (id > this.#lastId || oldest > id + 1) return { gap: oldest, frames: this.#kept.map(({ frame }) => frame) };
    return { gap: null, frames: this.#kept.slice(id + 1 - oldest).map(({ frame }) => frame) };
  }

  /**
   * Calls `subscriber` for every later numbered frame until the returned function is called.
   *
   * @param closed Called once when the session has ended in order; at once when it has already.
   */
  subscribe(subscriber: (frame: Frame) => void, closed?: () => void): () => void {
    this.#subscribers.add(subscriber);
    if (closed !== undefined) {
      if (this.#isClosed) closed();
      else this.#closed.add(closed);
    }
    return () => {
      this.#subscribers.delete(subscriber);
      if (closed !== undefined) this.#closed.delete(closed);
    };
  }

  /** For the terminal of `mur run`: it sees what {@linkcode show} is given, and the states of every task. */
  watch(watcher: (body: FrameBody) => void): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  /** The session ended in order: every reader is told, no frame follows. */
  close(): void {
    this.#isClosed = true;
    for (const closed of this.#closed) closed();
    this.#closed.clear();
  }
}
