/**
 * Who set a task and whether its text is trusted: decides the queue lane and the fence, refuses nothing (spec session
 * 6.3, 14.1).
 *
 * @module
 */
import type { Lane, TaskOrigin, Trust } from "../trace/trace_event.ts";

/** Origin and trust of a task, as they go to the trace. */
export interface TaskStanding {
  readonly origin: TaskOrigin;
  readonly trust: Trust;
  readonly lane: Lane;
}

const LANES: Readonly<Record<TaskOrigin, Lane>> = {
  user: "user",
  peer: "peer",
  schedule: "bg",
  event: "bg",
  completion: "bg",
  system: "bg",
};

function standing(origin: TaskOrigin, trust: Trust): TaskStanding {
  return { origin, trust, lane: LANES[origin] };
}

/** The launch task: `--task`, `task.md`. */
export const LAUNCH_TASK: TaskStanding = standing("user", "trusted");

/** A task that names commands lost by an earlier session. */
export const LOST_COMMANDS_TASK: TaskStanding = standing("completion", "untrusted");

/** A finished detached command, reported in the class of the task that started it. */
export function completionStanding(starter: Trust): TaskStanding {
  return standing("completion", starter);
}

/** What a request says of itself. Header names are matched by the door; values are as sent. */
export interface OriginHeaders {
  /** `x-murmur-task-origin`. */
  readonly origin: string | null;
  /** `x-murmur-task-trust`. */
  readonly trust: string | null;
  /** Whether the request presented a valid door or formation token. */
  readonly tokenPresented: boolean;
}

/**
 * Standing of a task from the door. Only `peer` and `completion` are believed, in any letter case; `trusted` is
 * believed exactly as written and only beside a token. Everything else is an untrusted `event`.
 */
export function requestStanding(headers: OriginHeaders): TaskStanding {
  const named = headers.origin?.toLowerCase();
  if (named !== "peer" && named !== "completion") return standing("event", "untrusted");
  return standing(named, headers.tokenPresented && headers.trust === "trusted" ? "trusted" : "untrusted");
}
