/**
 * Errors of commands that talk to the door of a running capsule (spec cli 13).
 *
 * @module
 */
import { DoorRefusal, RPC_CODE, type RpcFailure } from "../base/door_client.ts";
import { MurError } from "../base/errors.ts";
import { HttpError } from "../base/http_error.ts";

/**
 * The error of a command whose door was found and then refused or lost (spec cli 13): always `E-IO-003`.
 *
 * @param door How the operator knows the door.
 */
export function doorError(error: unknown, door: string): MurError {
  if (error instanceof DoorRefusal) {
    const hint = error.byToken
      ? "a door with authentication needs its token: with --url from MURMUR_DOOR_TOKEN, by session from its record"
      : error.status === 503
      ? "the door has as many requests in work as it takes; try again"
      : undefined;
    return new MurError("E-IO-003", `the door of ${door} answered ${error.message}`, {
      ...(hint === undefined ? {} : { hint }),
      cause: error,
    });
  }
  if (error instanceof HttpError) {
    return new MurError("E-IO-003", `the connection to the door of ${door} failed: ${error.message}`, { cause: error });
  }
  throw error;
}

/** The error of a call the door refused in JSON-RPC. */
export function rpcError({ code, message }: RpcFailure, what: string): MurError {
  if (code === RPC_CODE.methodNotFound) {
    return new MurError("E-IO-003", `${what}: this door does not serve that method`);
  }
  return new MurError("E-IO-003", `${what}: ${message} (${code})`);
}
