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

/**
 * Handles for peer files: minting and verifying them in a program of your own, and answering redeems.
 */
export {
  decodePayloadUnverified,
  handleId,
  type HandlePayload,
  mint,
  type MintedHandle,
  newNonce,
  PeerMintKey,
  verify,
} from "./planes/handle.ts";
export { audienceFromCard } from "./planes/audience.ts";
export { PEER_INBOX_DIR, storedPathFor } from "./planes/stored_path.ts";
export {
  AUDIENCE_HEADER,
  HANDLE_ID_HEADER,
  handlePeerRequest,
  isPeerPath,
  PEER_PATH_PREFIX,
  type PeerPlane,
  type PeerRequest,
  type RedeemRecord,
} from "./planes/peer_plane.ts";
export { ExportRoot, type ExportRootOptions } from "./planes/export_root.ts";
export { RootedDir } from "./base/rooted_dir.ts";
export type { HandleError, PeerError, PlaneAnswer, PlaneRefusal } from "./planes/plane_refusal.ts";

/** The spawn daemon's client. */
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
export type { RoostBounds } from "./base/roost_bounds.ts";
