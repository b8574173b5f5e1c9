/**
 * The credential gateway of one artifact (spec components 5): the artifact sends plain HTTP to an address nobody listens
 * on, the runtime re-addresses it to the upstream the operator named and attaches the key. The artifact never holds it.
 *
 * @module
 */
import type { UpstreamAuth } from "../../artifact/manifest/artifact_manifest.ts";
import { MurError } from "../../base/errors.ts";
import type { HttpHeaders, HttpResponse, HttpSend } from "../../base/http_client.ts";
import { abortError } from "../../base/http_error.ts";
import {
  type GuestRequest,
  type GuestResponse,
  type OutgoingHttp,
  OutgoingHttpError,
} from "../component/component_runtime.ts";
import { redactValues } from "../trace/trace_redaction.ts";
import type { TraceEventBody } from "../trace/trace_event.ts";
import type { CredentialSource } from "./credential_source.ts";
import { bodyWithoutEchoedKeys, withoutEchoedKeys } from "./echoed_key.ts";
import { GATEWAY_AUTHORITY, guestResponse, outgoingHttpError } from "./outgoing_policy.ts";

/** Largest request body that is held for a second sending, in bytes. */
export const MAX_KEYED_BODY = 64 * 1024 * 1024;

const FIELD_VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;

/** A usable `upstream_auth:`. */
export interface UpstreamHeader {
  /** Header name as written. */
  readonly header: string;
  /** Holds `{key}` exactly once. */
  readonly value: string;
}

/**
 * The `upstream_auth:` of an artifact whose entry declares `gateway:`.
 *
 * @param artifact `name@version`.
 * @throws {MurError} `E-RUN-025` with the reason in parentheses (spec diagnostics 5.5).
 */
export function requireUpstreamAuth(
  artifact: string,
  auth: UpstreamAuth,
  hasInferenceAuth: boolean,
): UpstreamHeader {
  // The retired name beside the new one counts as unusable too: nobody can say which one was meant (spec manifest 5.2).
  const reason = hasInferenceAuth
    ? "the block is under its retired name 'inference_auth'"
    : auth.kind === "absent"
    ? "there is no such block"
    : auth.kind === "unusable"
    ? auth.reason
    : null;
  if (reason === null && auth.kind === "usable") return { header: auth.header, value: auth.value };
  throw new MurError(
    "E-RUN-025",
    `artifact '${artifact}' has 'gateway:' in the manifest and no usable 'upstream_auth:' of its own (${reason})`,
    { hint: "update the artifact, or drop 'gateway:' from its entry" },
  );
}

/** What the artifact gets as `MURMUR_GATEWAY_ENDPOINT`: the gateway's address with the endpoint's path. */
export function gatewayEndpointForGuest(endpoint: string): string {
  return `http://${GATEWAY_AUTHORITY}${new URL(endpoint).pathname.replace(/\/+$/, "")}`;
}

/** A change of a credential, as the trace has it. */
export type CredentialEvent = TraceEventBody<"inference_credential">;

/** How one gateway is set up. */
export interface GatewayOptions {
  /** Bare name of the artifact. */
  readonly artifact: string;
  /** `gateway.endpoint`. */
  readonly endpoint: string;
  readonly auth: UpstreamHeader;
  /** `null`: keyless. */
  readonly credential: CredentialSource | null;
  /** Whether a metered gateway may send now; `null`: not metered (spec components 5.4). */
  readonly admission: { readonly open: boolean } | null;
  readonly send: HttpSend;
  readonly onEvent: (event: CredentialEvent) => void;
}

/** One artifact's gateway. */
export interface CredentialGateway {
  readonly artifact: string;
  /** Host of the upstream, for the trace. */
  readonly host: string;
  readonly metered: boolean;
  /** `keyless` without a credential. */
  readonly credentialSource: CredentialSource["kind"] | "keyless";
  readonly http: OutgoingHttp;
  /** A 401 that stood, until any other status comes. */
  rejected(): boolean;
  /** Status of the last response, `null` before the first and since {@linkcode CredentialGateway.beginCall}. */
  lastStatus(): number | null;
  /** Starts a driver call: forgets the last status. */
  beginCall(): void;
  /** Every key this gateway held, for redaction. */
  credentialValues(): readonly string[];
}

/** The error of a task whose driver's upstream rejected the key (`E-RUN-027`). */
export function credentialRejectedError(gateway: CredentialGateway, credential: CredentialSource | null): MurError {
  const rotates = credential?.kind === "config" || credential?.kind === "injected";
  const what = credential?.name === null || credential === null ? "the key of the manifest" : credential.name;
  return new MurError(
    "E-RUN-027",
    `${gateway.host} answered 401 to '${gateway.artifact}': ${what} was rejected, and reading it again did not cure it`,
    {
      hint: rotates
        ? `replace the credential: mur config set -g credentials.${credential.name} -`
        : "replace the credential and restart: it is read only at launch",
    },
  );
}

/** Headers with exactly one of the given name. */
function withKey(headers: HttpHeaders, auth: UpstreamHeader, key: string | null): HttpHeaders {
  const name = auth.header.toLowerCase();
  const kept = headers.filter(([header]) => header.toLowerCase() !== name);
  if (key === null) return kept;
  const [before, after] = auth.value.split("{key}");
  // A compressed answer would hide a key that is sent back.
  const plain = kept.filter(([header]) => header.toLowerCase() !== "accept-encoding");
  return [...plain, ["accept-encoding", "identity"], [auth.header, `${before}${key}${after}`]];
}

async function bufferBody(request: GuestRequest): Promise<Uint8Array | null> {
  if (request.body === null) return null;
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = request.body.getReader();
  const onAbort = () => void reader.cancel().catch(() => {});
  request.signal.addEventListener("abort", onAbort);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > MAX_KEYED_BODY) {
        reader.cancel().catch(() => {});
        throw new OutgoingHttpError(
          "HTTP-request-body-size",
          `the gateway takes request bodies of at most ${MAX_KEYED_BODY} bytes`,
        );
      }
      chunks.push(value);
    }
  } finally {
    request.signal.removeEventListener("abort", onAbort);
  }
  if (request.signal.aborted) throw abortError(request.signal, request.url.host);
  const body = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    body.set(chunk, at);
    at += chunk.length;
  }
  return body;
}

/** Sets up the gateway of one artifact. */
export function createCredentialGateway(options: GatewayOptions): CredentialGateway {
  const { artifact, auth, credential, send } = options;
  const upstream = new URL(options.endpoint);
  let rejected = false;
  let lastStatus: number | null = null;

  function emit(change: Pick<CredentialEvent, "change" | "trigger" | "status" | "retried" | "reason">): void {
    if (credential === null) return;
    options.onEvent({
      source: credential.kind,
      ...(credential.name === null ? {} : { credential: credential.name }),
      ...change,
    });
  }

  /** The key as it is now; `forced` after a rejection. */
  async function currentKey(source: CredentialSource, forced: boolean): Promise<string> {
    const reading = await source.read(forced);
    if (reading.unreadable !== null) emit({ change: "unreadable", reason: reading.unreadable });
    if (reading.changed) emit({ change: "rotated", trigger: forced ? "rejection" : "file_changed" });
    if (reading.key === null) {
      throw new OutgoingHttpError(
        "internal-error",
        `no value was injected yet for '${source.name}', the credential of '${artifact}'`,
      );
    }
    if (!FIELD_VALUE.test(reading.key)) {
      throw new OutgoingHttpError(
        "internal-error",
        `the credential of '${artifact}' holds characters that no header can carry`,
      );
    }
    return reading.key;
  }

  function rewritten(url: URL): URL {
    const target = new URL(url);
    target.protocol = upstream.protocol;
    target.hostname = upstream.hostname;
    target.port = upstream.port;
    target.username = "";
    target.password = "";
    return target;
  }

  /** What came back, without any key this gateway held. */
  function blotted(response: HttpResponse): HttpResponse {
    const keys = credential?.values() ?? [];
    return {
      status: response.status,
      headers: withoutEchoedKeys(response.headers, keys),
      body: bodyWithoutEchoedKeys(response.body, keys),
    };
  }

  async function forward(request: GuestRequest): Promise<HttpResponse> {
    const target = { method: request.method, url: rewritten(request.url), signal: request.signal };
    // The body is the request's own; its length is set anew from the bytes that are sent.
    if (credential === null) {
      return await send({ ...target, headers: withKey(request.headers, auth, null), body: request.body });
    }
    const body = await bufferBody(request);
    const sendWith = (key: string) => send({ ...target, headers: withKey(request.headers, auth, key), body });
    const key = await currentKey(credential, false);
    const response = await sendWith(key);
    if (response.status !== 401) return response;
    const next = await currentKey(credential, true).catch(() => key);
    if (next === key) {
      emit({ change: "rejected", status: 401, retried: false });
      return response;
    }
    await response.body.cancel().catch(() => {});
    const second = await sendWith(next);
    if (second.status === 401) emit({ change: "rejected", status: 401, retried: true });
    return second;
  }

  return {
    artifact,
    host: upstream.host,
    metered: options.admission !== null,
    credentialSource: credential?.kind ?? "keyless",
    async http(request): Promise<GuestResponse> {
      if (options.admission !== null && !options.admission.open) {
        throw new OutgoingHttpError(
          "HTTP-request-denied",
          `the gateway of '${artifact}' sends only while an inference call is admitted`,
        );
      }
      if (credential !== null && /^trace$/i.test(request.method)) {
        throw new OutgoingHttpError(
          "HTTP-request-denied",
          "a gateway with a key sends no TRACE: its answer is the request",
        );
      }
      try {
        const response = await forward(request);
        lastStatus = response.status;
        rejected = response.status === 401 && credential !== null;
        return guestResponse(blotted(response));
      } catch (error) {
        const shown = outgoingHttpError(error);
        // No text of ours holds a key; one that quotes bytes of the upstream could.
        throw new OutgoingHttpError(shown.wasiCode, redactValues(shown.message, credential?.values() ?? []));
      }
    },
    rejected: () => rejected,
    lastStatus: () => lastStatus,
    beginCall() {
      lastStatus = null;
    },
    credentialValues: () => credential?.values() ?? [],
  };
}
