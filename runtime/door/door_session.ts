/**
 * What a door works on: the tasks and frames of one session, and what its card tells.
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import type { Receipt } from "../delegation/delegation_state.ts";
import type { FrameLog } from "../session/frame_log.ts";
import type { TaskRegistry } from "../session/task_registry.ts";
import type { TraceEventBody } from "../trace/trace_event.ts";
import type { DoorShape } from "./door_methods.ts";

/** One request to a plane. */
export interface PlaneRequest {
  readonly method: string;
  /** As it was sent, without a query. */
  readonly rawPath: string;
  /** What `x-murmur-audience` says; `null` without it. */
  readonly audience: string | null;
}

/** The line of a trace that a request to a plane leaves (spec trace 6.8). */
export type PlaneRecord = {
  readonly [T in "resource_list" | "resource_read" | "peer_handle_redeem"]: {
    readonly type: T;
    readonly body: TraceEventBody<T>;
  };
}["resource_list" | "resource_read" | "peer_handle_redeem"];

/** The planes a manifest declares. */
export interface ServedPlanes {
  /** Whether the operator plane is declared. */
  readonly operator: boolean;
  /** Whether the peer plane is declared. */
  readonly peer: boolean;
  answerOperator(request: PlaneRequest): Promise<Response>;
  answerPeer(request: PlaneRequest): Promise<Response>;
  /** Breaks off what is being written. */
  cut(): void;
}

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
  /** `null`: the manifest declares neither plane. */
  readonly planes: ServedPlanes | null;
  /** The class this session achieved. */
  readonly containment: string;
  /** Takes the line of a request to a plane that is not declared. */
  readonly recordPlane: (record: PlaneRecord) => void;
  /** The card anybody may read. */
  publicCard(): JsonObject;
  /** The card of an authenticated door's callers. */
  extendedCard(): JsonObject;
}
