/**
 * The one numbered log of frames a session shows: the terminal subscribes to it like any stream (design: state that
 * changes; spec session 5, 9.9).
 *
 * A subscriber is told of each frame as it is published and must not block; whoever needs to wait queues for itself.
 *
 * @module
 */
import type { JsonValue } from "../../base/json_value.ts";

/** State of a task as its status frames say it. */
export type TaskState = "submitted" | "working" | "input-required" | "completed" | "failed" | "canceled" | "rejected";

/** What a frame says (spec door 12.2). */
export type FrameBody =
  | {
    readonly type: "status";
    readonly taskId: string;
    readonly contextId: string;
    readonly state: TaskState;
    readonly message: string | null;
    readonly final: boolean;
  }
  | { readonly type: "text"; readonly taskId: string; readonly text: string; readonly final: boolean }
  | { readonly type: "thinking"; readonly taskId: string; readonly text: string; readonly final: boolean }
  | {
    readonly type: "artifact";
    readonly taskId: string;
    readonly toolName: string;
    readonly toolCallId: string | null;
    readonly content: JsonValue;
    readonly isError: boolean;
    readonly fenceSource: string | null;
  };

/** A published frame. Ids count from 1 and never repeat. */
export type Frame = { readonly id: number } & FrameBody;

/** Frames kept for a reader that comes back (spec session 21). */
export const REPLAY_FRAMES = 512;

/** Characters of all kept frames together: one frame may hold a guest's 64 MiB, and the runtime must outlive 512 of them. */
export const REPLAY_CHARACTERS = 32 << 20;

function sizeOf(body: FrameBody): number {
  switch (body.type) {
    case "status":
      return body.message?.length ?? 0;
    case "artifact":
      return typeof body.content === "string" ? body.content.length : JSON.stringify(body.content).length;
    default:
      return body.text.length;
  }
}

/** The frames of one session. */
export class FrameLog {
  readonly #kept: { readonly frame: Frame; readonly size: number }[] = [];
  #keptCharacters = 0;
  readonly #subscribers = new Set<(frame: Frame) => void>();
  #lastId = 0;

  /** Id of the newest frame; 0 before the first. */
  get lastId(): number {
    return this.#lastId;
  }

  publish(body: FrameBody): Frame {
    const frame: Frame = { id: ++this.#lastId, ...body };
    const size = sizeOf(body);
    this.#kept.push({ frame, size });
    this.#keptCharacters += size;
    while (this.#kept.length > REPLAY_FRAMES || this.#keptCharacters > REPLAY_CHARACTERS) {
      this.#keptCharacters -= this.#kept.shift()!.size;
    }
    for (const subscriber of this.#subscribers) subscriber(frame);
    return frame;
  }

  /** Frames after `id` that are still kept, oldest first. */
  after(id: number): readonly Frame[] {
    return this.#kept.map(({ frame }) => frame).filter((frame) => frame.id > id);
  }

  /** Calls `subscriber` for every later frame until the returned function is called. */
  subscribe(subscriber: (frame: Frame) => void): () => void {
    this.#subscribers.add(subscriber);
    return () => void this.#subscribers.delete(subscriber);
  }
}
