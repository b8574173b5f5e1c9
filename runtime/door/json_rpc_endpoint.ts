/**
 * What a door answers to a JSON-RPC body (spec door 2, steps 6 to 14). The standard's methods go through the A2A library's
 * transport over our request handler; what the library would read or word otherwise is checked and shaped here.
 *
 * The module loads the library; the door imports it when the first request needs it.
 *
 * @module
 */
import { StreamResponse } from "@a2a-js/sdk";
import { JsonRpcTransportHandler } from "@a2a-js/sdk/server";
import { isJsonObject, type JsonObject } from "../../base/json_value.ts";
import { requestStanding, type TaskStanding } from "../agent/task_origin.ts";
import {
  type A2aError,
  invalidParams,
  METHOD_NOT_FOUND,
  NO_EXTENDED_CARD,
  PUSH_NOTIFICATIONS_NOT_SUPPORTED,
  versionNotSupported,
} from "./a2a_error.ts";
import { type CallFacts, DoorCall, DoorRequestHandler } from "./a2a_request_handler.ts";
import { answerCompletion } from "./completion_delivery.ts";
import { type Caller, type HttpRefusal, refuseScope, requestClass } from "./door_access.ts";
import {
  type DoorMethod,
  isStreaming,
  methodMeaning,
  RAW_WATCH_STREAM,
  scopeOf,
  STOP_SESSION,
  WATCH_STREAM,
} from "./door_methods.ts";
import type { DoorSession } from "./door_session.ts";
import { type EventSource, formatEvent } from "./event_stream.ts";
import {
  errorAnswer,
  isServedVersion,
  parseRpcRequest,
  resultAnswer,
  resultTextAnswer,
  type RpcId,
  type RpcRequest,
} from "./json_rpc.ts";
import { KeptAnswers } from "./kept_answers.ts";
import { readMessageParams } from "./message_params.ts";
import type { RequestPlace } from "./request_place.ts";
import type { RawEvent } from "./stream_events.ts";
import { readCancelId, readListQuery, readTaskId } from "./task_params.ts";
import { lastEventId, type OpenStream, rawWatchStream, watchStream } from "./task_stream.ts";

/** What a door answers. */
export type DoorAnswer =
  | {
    readonly kind: "json";
    readonly body: string;
    /** `200` when absent. */
    readonly status?: number;
    /** `application/json` when absent. */
    readonly contentType?: string;
  }
  | { readonly kind: "refused"; readonly refusal: HttpRefusal }
  | { readonly kind: "stream"; readonly source: EventSource };

/** One request that was read whole. */
export interface RpcCall {
  readonly text: string;
  readonly headers: Headers;
  /** `x-murmur-task-origin`, as sent. */
  readonly origin: string | null;
  readonly caller: Caller;
  readonly place: RequestPlace;
}

/** Longest `traceparent` that is kept: four times that of the standard's first version. */
const MAX_TRACEPARENT = 220;

function boundedTraceparent(header: string | null): string | null {
  return header === null || header.length > MAX_TRACEPARENT ? null : header;
}

/** Facts of a request that its headers tell, read when they are asked for: each header costs a call into Deno. */
export class RequestFacts implements CallFacts {
  readonly #call: RpcCall;

  constructor(call: RpcCall) {
    this.#call = call;
  }

  get viewer(): string | null {
    return this.#call.caller.viewer;
  }

  get standing(): TaskStanding {
    const { origin, headers, caller: { tokenPresented } } = this.#call;
    return requestStanding({ origin, trust: headers.get("x-murmur-task-trust"), tokenPresented });
  }

  get traceparent(): string | null {
    return boundedTraceparent(this.#call.headers.get("traceparent"));
  }

  get lastEventId(): number | null {
    return lastEventId(this.#call.headers.get("last-event-id"));
  }

  onHold(): void {
    this.#call.place.hold();
  }
}

/** Only a harness has a session of its own to forget, and none is driven yet. */
export const NOTHING_TO_FORGET = invalidParams(
  "Invalid params: x-murmur-forget-session is for a capsule with inference.transport: process",
);

/** What the library's transport is given for a call; a message travels in the call alone. */
interface TransportCall {
  readonly params: JsonObject;
  readonly call: DoorCall;
}

/** Requests of A2A 0.3. */
export interface OlderForm {
  isSpoken(version: string | null): boolean;
  /** The 1.0 method a name means, or why it is not served. */
  method(name: string, takesTasks: boolean): DoorMethod | A2aError;
  answer(request: RpcRequest, method: DoorMethod, params: JsonObject, facts: CallFacts): Promise<DoorAnswer>;
}

/** Answers JSON-RPC bodies. */
export class JsonRpcEndpoint {
  readonly #session: DoorSession;
  readonly #transport: JsonRpcTransportHandler;
  readonly #kept = new KeptAnswers();
  readonly #older: OlderForm | null;

  /** @param older Answers requests of A2A 0.3; `null`: they are refused. */
  constructor(session: DoorSession, handler: DoorRequestHandler, older: OlderForm | null) {
    this.#session = session;
    this.#transport = new JsonRpcTransportHandler(handler);
    this.#older = older;
  }

  answer(rpc: RpcCall): DoorAnswer | Promise<DoorAnswer> {
    const { headers, caller } = rpc;
    const parsed = parseRpcRequest(rpc.text);
    if (!parsed.ok) return failed(parsed.id, parsed.error);
    const { request } = parsed;
    const version = headers.get("a2a-version");
    const older = this.#older !== null && this.#older.isSpoken(version) ? this.#older : null;
    if (older === null && !isServedVersion(version)) {
      return failed(request.id, versionNotSupported(version?.trim() ?? ""));
    }
    if (requestClass(rpc.origin) === "completion") {
      const answer = answerCompletion(
        {
          method: request.method,
          session: headers.get("x-murmur-completion-session"),
          delegationId: headers.get("x-murmur-delegation-id"),
        },
        this.#session.sessionId,
        this.#session.receiveCompletion,
      );
      return "code" in answer
        ? failed(request.id, answer)
        : { kind: "json", body: resultAnswer(request.id, { ...answer }) };
    }
    const meaning = older === null
      ? meantMethod(request.method, this.#session)
      : older.method(request.method, this.#session.takesTasks);
    if (typeof meaning === "object") return failed(request.id, meaning);
    const method = meaning;
    const outOfScope = refuseScope(caller, scopeOf(method), this.#session.capsule);
    if (outOfScope !== null) return { kind: "refused", refusal: outOfScope };
    const isMessage = method === "SendMessage" || method === "SendStreamingMessage";
    if (isMessage && headers.get("x-murmur-forget-session") === "true") return failed(request.id, NOTHING_TO_FORGET);
    const params = request.params ?? {};
    if (!isJsonObject(params) || request.params === null) {
      return failed(request.id, invalidParams("params must be an object"));
    }
    if (isStreaming(method)) {
      const full = rpc.place.refuseStream();
      if (full !== null) return { kind: "refused", refusal: full };
    }
    if (older !== null) return older.answer(request, method, params, new RequestFacts(rpc));
    switch (method) {
      case WATCH_STREAM:
        return this.#watch(request.id, lastEventId(headers.get("last-event-id")), request.method === RAW_WATCH_STREAM);
      case STOP_SESSION:
        return this.#stop(request.id);
      case "GetExtendedAgentCard":
        return { kind: "json", body: resultAnswer(request.id, this.#session.extendedCard()) };
      case "GetTask":
        return this.#keptTask(request.id, params, caller) ?? this.#overTransport(request, method, params, rpc);
      default:
        return this.#overTransport(request, method, params, rpc);
    }
  }

  /** What the transport told of a task before; `null`: it has to be asked. */
  #keptTask(id: RpcId, params: JsonObject, { viewer }: Caller): DoorAnswer | null {
    const task = typeof params.id === "string" ? this.#session.tasks.find(params.id, viewer) : null;
    const kept = task === null ? null : this.#kept.of(task);
    return kept === null ? null : { kind: "json", body: resultTextAnswer(id, kept) };
  }

  #watch(id: RpcId, after: number | null, raw: boolean): DoorAnswer {
    const { conversation } = this.#session;
    if (raw) return streamed(rawWatchStream(this.#session, conversation, after), formatRaw);
    return streamed(
      watchStream(this.#session, conversation, after),
      ({ id: frameId, type, response }) =>
        formatEvent(frameId, type, resultAnswer(id, shapedEvent(StreamResponse.toJSON(response)))),
    );
  }

  #stop(id: RpcId): DoorAnswer {
    const { canceled, residue } = this.#session.tasks.stop();
    return {
      kind: "json",
      body: resultAnswer(id, { session_id: this.#session.sessionId, canceled, residue }),
    };
  }

  async #overTransport(
    { id }: RpcRequest,
    method: Exclude<DoorMethod, typeof WATCH_STREAM | typeof STOP_SESSION | "GetExtendedAgentCard">,
    params: JsonObject,
    rpc: RpcCall,
  ): Promise<DoorAnswer> {
    const prepared = prepare(method, params, new RequestFacts(rpc));
    if ("code" in prepared) return failed(id, prepared);
    const { call } = prepared;
    const answer = await this.#transport.handle({ jsonrpc: "2.0", id, method, params: prepared.params }, call);
    if (!(Symbol.asyncIterator in answer)) {
      if (call.told === null || !("result" in answer)) return { kind: "json", body: JSON.stringify(answer) };
      const result = JSON.stringify(answer.result);
      this.#kept.keep(call.told, result);
      return { kind: "json", body: resultTextAnswer(id, result) };
    }
    const events = answer as AsyncGenerator<{ result: unknown }>;
    return streamed(
      { events, close: () => call.stream?.close() },
      (envelope) => {
        shapedEvent(envelope.result);
        return formatEvent(call.event!.id, call.event!.type, JSON.stringify(envelope));
      },
    );
  }
}

/** The method a name means, or why it is not served. */
function meantMethod(name: string, session: DoorSession): DoorMethod | A2aError {
  const meaning = methodMeaning(name, session);
  switch (meaning.kind) {
    case "served":
      return meaning.method;
    case "unsupported":
      return NO_EXTENDED_CARD;
    case "push_notification":
      return PUSH_NOTIFICATIONS_NOT_SUPPORTED;
    case "unknown":
      return METHOD_NOT_FOUND;
  }
}

function failed(id: RpcId | null, error: A2aError): DoorAnswer {
  return { kind: "json", body: errorAnswer(id, error) };
}

/** Checks the parameters of a method and hands the library those it needs. */
function prepare(
  method: "SendMessage" | "SendStreamingMessage" | "SubscribeToTask" | "GetTask" | "ListTasks" | "CancelTask",
  params: JsonObject,
  facts: CallFacts,
): TransportCall | A2aError {
  switch (method) {
    case "SendMessage":
    case "SendStreamingMessage": {
      const message = readMessageParams(params);
      return "code" in message ? message : { params: {}, call: new DoorCall(facts, message) };
    }
    case "ListTasks": {
      const query = readListQuery(params);
      return "code" in query ? query : { params: listParams(params), call: new DoorCall(facts) };
    }
    case "GetTask":
    case "SubscribeToTask":
    case "CancelTask": {
      const id = method === "CancelTask" ? readCancelId(params) : readTaskId(params, method);
      return typeof id === "string" ? { params: { id }, call: new DoorCall(facts) } : id;
    }
  }
}

/** The parameters of `ListTasks` among those that were sent. */
function listParams(params: JsonObject): JsonObject {
  const { contextId, status, pageSize, pageToken, statusTimestampAfter, includeArtifacts } = params;
  return Object.fromEntries(
    Object.entries({ contextId, status, pageSize, pageToken, statusTimestampAfter, includeArtifacts })
      .filter(([, value]) => value !== undefined),
  ) as JsonObject;
}

/** An artifact's event says of every piece whether it continues and whether it is the last. */
function shapedEvent(response: unknown): unknown {
  const { artifactUpdate } = response as { artifactUpdate?: { append?: boolean; lastChunk?: boolean } };
  if (artifactUpdate !== undefined) {
    artifactUpdate.append ??= false;
    artifactUpdate.lastChunk ??= false;
  }
  return response;
}

function formatRaw({ id, type, payload }: RawEvent): string {
  return formatEvent(id, type, JSON.stringify(payload));
}

/** A stream whose events are formatted one by one as they are asked for. */
export function streamed<Event>(
  { events, close }: OpenStream<Event>,
  format: (event: Event) => string,
): Extract<DoorAnswer, { kind: "stream" }> {
  async function* formatted() {
    for await (const event of events) yield format(event);
  }
  return { kind: "stream", source: { events: formatted(), close } };
}
