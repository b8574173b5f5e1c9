/**
 * Who may call a door (spec door 3): what a request's credential is worth, what its origin header makes of it, and how a
 * refusal is worded. Pure.
 *
 * @module
 */
import type { DoorScope } from "../../artifact/manifest/door_scopes.ts";
import type { TokenHolder } from "./door_token.ts";

/** A refusal in HTTP, not in JSON-RPC (spec door 3.3). */
export interface HttpRefusal {
  readonly status: number;
  readonly error: string;
  readonly message: string;
  /** Further headers, e.g. `www-authenticate`. */
  readonly headers?: readonly (readonly [string, string])[];
}

/** Who calls. */
export interface Caller {
  /** Name of the credential; `null` at a public door. */
  readonly credential: string | null;
  /** `null`: everything, at a public door. */
  readonly scopes: ReadonlySet<DoorScope> | null;
  /** Whether a valid token was presented, so that a trust header counts. */
  readonly tokenPresented: boolean;
  /** Member of a formation, which sees its own tasks only. */
  readonly viewer: string | null;
}

/** Everybody who calls a public door. */
export const PUBLIC_CALLER: Caller = { credential: null, scopes: null, tokenPresented: false, viewer: null };

function challenge(capsule: string, parameters = ""): readonly (readonly [string, string])[] {
  return [["www-authenticate", `Bearer realm="${capsule}"${parameters}`]];
}

/**
 * The caller of an authenticated door. Several `Authorization` lines arrive joined by `, `, which no token holds.
 *
 * Formation tokens (`mft1`) have no verifier at this door and are refused as any other text is.
 */
export function authenticate(
  authorization: string | null,
  capsule: string,
  holderOf: (token: string) => TokenHolder | null,
): { readonly caller: Caller } | { readonly refusal: HttpRefusal } {
  if (authorization === null) {
    return {
      refusal: {
        status: 401,
        error: "unauthenticated",
        message: "this door takes calls with a bearer token",
        headers: challenge(capsule),
      },
    };
  }
  const token = /^bearer +([^\s,]+)$/i.exec(authorization)?.[1];
  const holder = token === undefined ? null : holderOf(token);
  if (holder === null) {
    return {
      refusal: {
        status: 401,
        error: "invalid_token",
        message: "the token is not one of this session",
        headers: challenge(capsule, `, error="invalid_token"`),
      },
    };
  }
  return { caller: { ...holder, tokenPresented: true, viewer: null } };
}

/** Whether a caller reaches a scope; `null` lets it pass. */
export function refuseScope(caller: Caller, scope: DoorScope | null, capsule: string): HttpRefusal | null {
  if (scope === null || caller.scopes === null || caller.scopes.has(scope)) return null;
  return {
    status: 403,
    error: "insufficient_scope",
    message: `credential '${caller.credential}' does not reach ${scope}`,
    headers: challenge(capsule, `, error="insufficient_scope", scope="${scope}"`),
  };
}

/** A peer's task at a capsule that takes none: the same bytes for every request. */
export const PEER_NOT_ACCEPTED: HttpRefusal = {
  status: 403,
  error: "peer_not_accepted",
  message: "this capsule does not accept tasks from peers",
};

/** What a request says it is (spec door 3.5). */
export type RequestClass = "event" | "peer" | "completion";

/** Reads `x-murmur-task-origin`. */
export function requestClass(origin: string | null): RequestClass {
  const named = origin?.toLowerCase();
  return named === "peer" || named === "completion" ? named : "event";
}
