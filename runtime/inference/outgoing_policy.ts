/**
 * The policy in front of every component's outgoing requests (spec components 3.6): reserved headers are dropped, the
 * artifact's own gateway and the formation plane are recognised, everything else must match a rule of the artifact.
 * What is allowed goes out by the runtime's HTTP client, which judges the addresses.
 *
 * @module
 */
import { type NetworkRule, networkRuleMatches, targetOf } from "../../artifact/network_rules.ts";
import type { HttpSend } from "../../base/http_client.ts";
import { HttpError, type HttpErrorKind } from "../../base/http_error.ts";
import { RESERVED_HEADERS } from "../../base/reserved_headers.ts";
import {
  type GuestRequest,
  type GuestResponse,
  type OutgoingHttp,
  OutgoingHttpError,
} from "../component/component_runtime.ts";

/** Authority under which an artifact reaches its gateway. Nothing listens there. */
export const GATEWAY_AUTHORITY = "127.0.0.1:9";

/** What binds one artifact's requests. */
export interface OutgoingPolicy {
  /** Rules of spec components 3.6: the artifact's clamped ones, or the capsule's. */
  readonly rules: readonly NetworkRule[];
  readonly send: HttpSend;
  /** The artifact's credential gateway, `null` without one. */
  readonly gateway: OutgoingHttp | null;
  /** The formation plane: answers requests to a peer's virtual host, `null` for any other. Absent outside a formation. */
  readonly formation?: (request: GuestRequest) => Promise<GuestResponse> | null;
}

/** Whether a request is addressed to the artifact's gateway: `http`, and exactly the gateway's authority. */
export function addressesGateway(url: URL): boolean {
  return url.protocol === "http:" && url.host === GATEWAY_AUTHORITY && url.username === "" && url.password === "";
}

const WASI_CODES: Readonly<Record<HttpErrorKind, string>> = {
  "invalid-request": "HTTP-protocol-error",
  "body-size": "HTTP-request-body-size",
  "no-such-name": "DNS-error",
  "name-timeout": "DNS-timeout",
  "address-refused": "destination-IP-prohibited",
  "connection-refused": "connection-refused",
  "connection-timeout": "connection-timeout",
  "unreachable": "destination-unavailable",
  "connection-terminated": "connection-terminated",
  "certificate": "TLS-certificate-error",
  "tls": "TLS-protocol-error",
  "proxy": "destination-unavailable",
  "response-headers-too-large": "HTTP-response-header-section-size",
  "protocol": "HTTP-protocol-error",
  "response-incomplete": "HTTP-response-incomplete",
  "aborted": "connection-terminated",
  "internal": "internal-error",
};

/** A failed request as the guest sees it. */
export function outgoingHttpError(error: unknown): OutgoingHttpError {
  if (error instanceof OutgoingHttpError) return error;
  if (error instanceof HttpError) return new OutgoingHttpError(WASI_CODES[error.kind], error.message);
  // An unknown failure is our own; its text may name anything, so the guest gets none of it.
  return new OutgoingHttpError("internal-error", "the request could not be sent");
}

/** A response whose body fails, if it does, with a WASI code too. */
export function guestResponse(response: GuestResponse): GuestResponse {
  const reader = response.body.getReader();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        controller.error(outgoingHttpError(error));
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
  return { status: response.status, headers: response.headers, body };
}

/** The function a component's requests go through. */
export function createOutgoingHttp(policy: OutgoingPolicy): OutgoingHttp {
  return async (asked) => {
    const headers = asked.headers.filter(([name]) => !RESERVED_HEADERS.has(name.toLowerCase()));
    const request: GuestRequest = { ...asked, headers };
    if (policy.gateway !== null && addressesGateway(request.url)) return await policy.gateway(request);
    const peer = policy.formation?.(request) ?? null;
    if (peer !== null) return await peer;
    if (!ruleAllows(policy.rules, request.url)) {
      throw new OutgoingHttpError(
        "HTTP-request-denied",
        `no network.allow entry lets a request through to ${request.url.protocol}//${request.url.host}`,
      );
    }
    try {
      return guestResponse(await policy.send(request));
    } catch (error) {
      throw outgoingHttpError(error);
    }
  };
}

/** Whether any rule matches. A URL that names no target matches none. */
export function ruleAllows(rules: readonly NetworkRule[], url: URL): boolean {
  if ((url.protocol !== "http:" && url.protocol !== "https:") || url.hostname === "") return false;
  const target = targetOf(url);
  return rules.some((rule) => networkRuleMatches(rule, target));
}
