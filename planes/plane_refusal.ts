/**
 * Every way a request to a plane is refused, in the words that the caller and the trace share (seed resource-plane, Errors
 * and `GET /resources/peer/<handle>`). Pure.
 *
 * @module
 */

/** A refusal that both planes know. */
export type FileError =
  | "not_found"
  | "outside_root"
  | "symlink_refused"
  | "not_a_regular_file"
  | "too_large"
  | "io_error"
  /** Not a row of the seed's table but the door's own limit: as many bytes are being written as are held at once. */
  | "too_many_answers";

/** Every way a read or a listing of the operator plane can be refused. */
export type OperatorError = FileError | "no_resource_plane" | "method_not_allowed";

/** Every way a redeem can be refused. */
export type PeerError = FileError | HandleError | "no_peer_plane" | "missing_audience" | "method_not_allowed";

/** Why a token was not accepted. */
export type HandleError = "malformed_handle" | "handle_not_valid" | "handle_expired";

/** Every code a plane answers with. */
export type PlaneError = OperatorError | PeerError;

/** HTTP status of each. */
export const PLANE_STATUS: Readonly<Record<PlaneError, number>> = {
  no_resource_plane: 404,
  no_peer_plane: 404,
  not_found: 404,
  malformed_handle: 400,
  missing_audience: 400,
  handle_not_valid: 403,
  handle_expired: 410,
  outside_root: 403,
  symlink_refused: 403,
  not_a_regular_file: 403,
  too_large: 413,
  method_not_allowed: 405,
  too_many_answers: 503,
  io_error: 500,
};

/** What was refused and why. The text names no path of the host. */
export interface PlaneRefusal<E extends PlaneError = PlaneError> {
  readonly error: E;
  readonly message: string;
}

/** Makes a refusal. */
export function refusal<E extends PlaneError>(error: E, message: string): PlaneRefusal<E> {
  return { error, message };
}

/** Tells a refusal from what was asked for. */
export function isRefusal<T extends object>(value: T): value is Extract<T, PlaneRefusal> {
  return "error" in value && "message" in value;
}

/** Header fields in order. */
export type PlaneHeaders = [name: string, value: string][];

/** What a plane answers. */
export interface PlaneAnswer<R> {
  readonly status: number;
  readonly headers: PlaneHeaders;
  readonly body: string | Uint8Array<ArrayBuffer>;
  /** What the trace is told. */
  readonly record: R;
}

/** The answer that a refusal becomes. `allow` and `retry-after` come with the codes that have them. */
export function refusalAnswer<R>({ error, message }: PlaneRefusal, record: R): PlaneAnswer<R> {
  return {
    status: PLANE_STATUS[error],
    headers: [
      ["content-type", "application/json"],
      ...(error === "method_not_allowed" ? [["allow", "GET"] as [string, string]] : []),
      ...(error === "too_many_answers" ? [["retry-after", "1"] as [string, string]] : []),
      ["connection", "close"],
    ],
    body: JSON.stringify({ error, message }),
    record,
  };
}
