/**
 * Murmur as a library: start a capsule in your own program and talk to it.
 *
 * ```ts
 * await using capsule = await launchCapsule({ manifest: "murmur.yaml", taskAcceptance: "queue", afterTask: "sleep" });
 * const task = capsule.send("What is in this directory?");
 * for await (const event of task.events) {
 *   if (event.type === "text") console.log(event.text);
 * }
 * console.log((await task.result).response);
 * ```
 *
 * @module
 */
export {
  type CapsuleEvent,
  type CapsuleLaunch,
  type CapsuleTask,
  launchCapsule,
  type RunningCapsule,
  type TaskResult,
} from "./runtime/session/launch_capsule.ts";
export type { SessionOutcome } from "./runtime/session/run_session.ts";
export type { Frame, TaskState } from "./runtime/session/frame_log.ts";
export { HttpError, type HttpErrorKind } from "./base/http_error.ts";
export { MurError, type Warning } from "./base/errors.ts";
export {
  type DeregisterRequest,
  parseRoostUrl,
  type RegisterAnswer,
  type RegisterRequest,
  type RoostAddress,
  type RoostAnswer,
  type RoostCallOptions,
  RoostClient,
  type RoostOutcome,
  type RoostSessionStatus,
  type SpawnGrant,
  type SpawnRequest,
} from "./base/roost_client.ts";
