/**
 * A2A's HTTP+JSON binding, with `network.a2a_compat: [rest]` (spec door 6.1): thin routing over the same request handler, with
 * the library's codecs and its mapping of errors to HTTP. With `v0.3` too, that version's form below `/v1`.
 *
 * The module loads the library.
 *
 * @module
 */
import { ListTasksRequest, ListTasksResponse, SendMessageRequest, StreamResponse, Task } from "@a2a-js/sdk";
import { RequestMalformedError, restStatusFor, toRestErrorBody } from "@a2a-js/sdk/errors";
import { reasonOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json_value.ts";
import {
  INVALID_JSON,
  invalidParams,
  NO_EXTENDED_CARD,
  NO_TASKS_TAKEN,
  PUSH_NOTIFICATIONS_NOT_SUPPORTED,
  versionNotSupported,
} from "./a2a_error.ts";
import { CallRefused, DoorCall, type DoorRequestHandler } from "./a2a_request_handler.ts";
import { refuseScope, requestClass } from "./door_access.ts";
import { type DoorMethod, isStreaming, methodMeaning, scopeOf } from "./door_methods.ts";
import type { DoorSession } from "./door_session.ts";
import { formatEvent } from "./event_stream.ts";
import { isServedVersion, parseBoundedJson } from "./json_rpc.ts";
import { type DoorAnswer, NOTHING_TO_FORGET, RequestFacts, type RpcCall, streamed } from "./json_rpc_endpoint.ts";
import { readMessageParams } from "./message_params.ts";
import { isOlderVersion } from "./older_json_rpc.ts";
import { newerMessageParams, olderCard, olderEvent, olderTask } from "./older_rest_form.ts";
import { queryParams, type RestRoute } from "./rest_route.ts";
import { readListQuery } from "./task_params.ts";

/** Completions are reported over JSON-RPC alone. */
const NO_COMPLETIONS = invalidParams("Invalid params: a completion is delivered with SendMessage over JSON-RPC");

/** A call over HTTP+JSON. */
export interface RestCall extends RpcCall {
  readonly route: RestRoute;
  /** Query of the request, without its `?`. */
  readonly query: string;
}

/** Answers calls over HTTP+JSON. */
export class RestEndpoint {
  readonly #session: DoorSession;
  readonly #handler: DoorRequestHandler;

  constructor(session: DoorSession, handler: DoorRequestHandler) {
    this.#session = session;
    this.#handler = handler;
  }

  async answer(rest: RestCall): Promise<DoorAnswer> {
    const { route, headers, caller } = rest;
    const older = route.version === "0.3";
    try {
      const version = headers.get("a2a-version");
      if (!(older ? isOlderVersion(version) : isServedVersion(version))) {
        throw new CallRefused(versionNotSupported(version?.trim() ?? ""));
      }
      if (requestClass(rest.origin) === "completion") throw new CallRefused(NO_COMPLETIONS);
      const method = this.#methodOf(route);
      const outOfScope = refuseScope(caller, scopeOf(method), this.#session.capsule);
      if (outOfScope !== null) return { kind: "refused", refusal: outOfScope };
      const full = isStreaming(method) ? rest.place.refuseStream() : null;
      if (full !== null) return { kind: "refused", refusal: full };
      return await this.#call(method, rest, older);
    } catch (error) {
      return refusal(error, older);
    }
  }

  #methodOf({ method }: RestRoute): DoorMethod {
    if (method === null) throw new CallRefused(PUSH_NOTIFICATIONS_NOT_SUPPORTED);
    const meaning = methodMeaning(method, this.#session);
    if (meaning.kind === "served") return meaning.method;
    throw new CallRefused(meaning.kind === "unsupported" ? NO_EXTENDED_CARD : NO_TASKS_TAKEN);
  }

  async #call(method: DoorMethod, rest: RestCall, older: boolean): Promise<DoorAnswer> {
    const id = rest.route.taskId ?? "";
    const facts = new RequestFacts(rest);
    const told = (task: Task) => {
      const json = Task.toJSON(task) as JsonObject;
      return older ? olderTask(json) : json;
    };
    switch (method) {
      case "SendMessage":
      case "SendStreamingMessage": {
        if (rest.headers.get("x-murmur-forget-session") === "true") throw new CallRefused(NOTHING_TO_FORGET);
        const body = parseBoundedJson(rest.text);
        if (body === undefined) throw new CallRefused(INVALID_JSON);
        if (!isJsonObject(body)) throw new CallRefused(invalidParams("Invalid params: the body must be an object"));
        const message = readMessageParams(older ? newerMessageParams(body) : body);
        if ("code" in message) throw new CallRefused(message);
        const call = new DoorCall(facts, message);
        const params = SendMessageRequest.fromJSON({});
        if (method === "SendStreamingMessage") {
          return stream(this.#handler.sendMessageStream(params, call), call, older);
        }
        return json({ task: told(await this.#handler.sendMessage(params, call)) }, older, older ? 201 : 200);
      }
      case "SubscribeToTask": {
        const call = new DoorCall(facts);
        return stream(
          this.#handler.resubscribe({ id, tenant: "" }, call),
          call,
          older,
        );
      }
      case "GetTask":
        return json(
          told(await this.#handler.getTask({ id }, new DoorCall(facts))),
          older,
        );
      case "CancelTask":
        return json(
          told(
            await this.#handler.cancelTask(
              { id },
              new DoorCall(facts),
            ),
          ),
          older,
        );
      case "ListTasks": {
        const params = queryParams(rest.query);
        const query = readListQuery(params);
        if ("code" in query) throw new CallRefused(query);
        const page = await this.#handler.listTasks(ListTasksRequest.fromJSON(params), new DoorCall(facts));
        return json(listed(page, query.includeArtifacts), older);
      }
      default: {
        const card = this.#session.extendedCard();
        return json(older ? olderCard(card) : card, older);
      }
    }
  }
}

/** All four members, and every task's artifacts when they are asked for. */
function listed(page: ListTasksResponse, artifacts: boolean): JsonObject {
  const tasks = page.tasks.map((task) => Task.toJSON(task) as JsonObject);
  return {
    tasks: artifacts ? tasks.map((task) => ({ ...task, artifacts: task.artifacts ?? [] })) : tasks,
    nextPageToken: page.nextPageToken,
    pageSize: page.pageSize,
    totalSize: page.totalSize,
  };
}

function json(value: JsonObject, older: boolean, status = 200): DoorAnswer {
  return {
    kind: "json",
    body: JSON.stringify(value),
    status,
    contentType: older ? "application/json" : "application/a2a+json",
  };
}

function stream(events: AsyncGenerator<StreamResponse, void, undefined>, call: DoorCall, older: boolean): DoorAnswer {
  return streamed(
    { events, close: () => call.stream?.close() },
    (response) => {
      const event = StreamResponse.toJSON(response) as JsonObject;
      return formatEvent(call.event!.id, call.event!.type, JSON.stringify(older ? olderEvent(event) : event));
    },
  );
}

/** A refusal with the standard's status and body. */
function refusal(error: unknown, older: boolean): DoorAnswer {
  const told = error instanceof CallRefused ? error.refusal : null;
  // An error of JSON-RPC itself has no name of its own in A2A.
  const mapped = told !== null && told.data === undefined ? new RequestMalformedError(told.message) : error;
  const status = restStatusFor(mapped);
  const body = older
    ? { code: told?.code ?? -32603, message: reasonOf(error) }
    : toRestErrorBody(mapped, status) as unknown as JsonObject;
  return json(body, older, status);
}
