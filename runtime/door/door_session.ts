/**
 * What a door works on: the tasks and frames of one session, and what its card tells.
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import type { Receipt } from "../delegation/delegation_state.ts";
import type { FrameLog } from "../session/frame_log.ts";
import type { TaskRegistry } from "../session/task_registry.ts";
import type { DoorShape } from "./door_methods.ts";

/** The session behind a door. */
export interface DoorSession extends DoorShape {
  readonly sessionId: string;
  /** Name of the capsule, the realm of its challenges. */
  readonly capsule: string;
  readonly tasks: TaskRegistry;
  readonly frames: FrameLog;
  readonly conversation: "stateless" | "threaded";
  /** `network.a2a_compat`. */
  readonly a2aCompat: readonly ("v0.3" | "rest")[];
  /** `exports.peer_tasks.accept`. */
  readonly acceptsPeers: boolean;
  /** Hands a completion to the session's delegations; `null`: it makes none. */
  readonly receiveCompletion: ((delegationId: string) => Receipt) | null;
  /** The card anybody may read. */
  publicCard(): JsonObject;
  /** The card of an authenticated door's callers. */
  extendedCard(): JsonObject;
}
