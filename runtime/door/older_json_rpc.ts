/**
 * A2A 0.3 over JSON-RPC, with `network.a2a_compat: [v0.3]` (spec door 6.1): the library's own handler for it stands in front of
 * the same request handler. What it takes for granted of a message is checked before.
 *
 * The module loads the library.
 *
 * @module
 */
import { LegacyJsonRpcTransportHandler } from "@a2a-js/sdk/compat/v0_3/server";
import { isJsonObject, type JsonObject, type JsonValue } from "../../base/json_value.ts";
import { type A2aError, invalidParams, METHOD_NOT_FOUND, PUSH_NOTIFICATIONS_NOT_SUPPORTED } from "./a2a_error.ts";
import { type CallFacts, DoorCall, type DoorRequestHandler } from "./a2a_request_handler.ts";
import type { DoorMethod } from "./door_methods.ts";
import { formatEvent } from "./event_stream.ts";
import type { RpcRequest } from "./json_rpc.ts";
import { type DoorAnswer, type OlderForm, streamed } from "./json_rpc_endpoint.ts";

/** Methods of A2A 0.3 and what they mean in 1.0. */
const MEANINGS: ReadonlyMap<string, DoorMethod> = new Map([
  ["message/send", "SendMessage"],
  ["message/stream", "SendStreamingMessage"],
  ["tasks/get", "GetTask"],
  ["tasks/cancel", "CancelTask"],
  ["tasks/resubscribe", "SubscribeToTask"],
  ["agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard"],
]);

/** Whether a request speaks A2A 0.3: no version, an empty one, or `0.3`. */
export function isOlderVersion(header: string | null): boolean {
  const version = header?.trim() ?? "";
  return version === "" || version === "0.3" || /^0\.3\.[0-9]+$/.test(version);
}

/** The 1.0 method a 0.3 name means, or why it is not served. */
export function olderMethod(name: string, takesTasks: boolean): DoorMethod | A2aError {
  if (name.startsWith("tasks/pushNotificationConfig/")) return PUSH_NOTIFICATIONS_NOT_SUPPORTED;
  const method = MEANINGS.get(name);
  if (method === undefined) return METHOD_NOT_FOUND;
  const isMessage = method === "SendMessage" || method === "SendStreamingMessage";
  return isMessage && !takesTasks ? METHOD_NOT_FOUND : method;
}

/** An error as 0.3 words it: without details. */
export function olderError({ code, message }: A2aError): A2aError {
  return { code, message };
}

function refused(what: string): A2aError {
  return invalidParams(`Invalid params: ${what}`);
}

function isReadablePart(part: JsonValue): boolean {
  if (!isJsonObject(part)) return false;
  switch (part.kind) {
    case "text":
      return typeof part.text === "string";
    case "file":
      return isJsonObject(part.file) && (typeof part.file.bytes === "string" || typeof part.file.uri === "string");
    case "data":
      return part.data !== undefined;
    default:
      return false;
  }
}

function checkMessage({ message }: JsonObject): JsonObject | A2aError {
  if (!isJsonObject(message)) return refused("message must be an object");
  const { messageId, role, parts, taskId, contextId, referenceTaskIds } = message;
  if (typeof messageId !== "string" || messageId === "") return refused("message.messageId must be a non-empty string");
  if (role !== "user") return refused("message.role must be user");
  if (!Array.isArray(parts) || parts.length === 0) return refused("message.parts must be a non-empty list");
  for (const [index, part] of (parts as readonly JsonValue[]).entries()) {
    if (!isReadablePart(part)) return refused(`message.parts[${index}] must be a text, file or data part`);
  }
  if (referenceTaskIds !== undefined && !Array.isArray(referenceTaskIds)) {
    return refused("message.referenceTaskIds must be a list of task ids");
  }
  return {
    kind: "message",
    messageId,
    role,
    parts,
    ...(taskId === undefined ? {} : { taskId }),
    ...(contextId === undefined ? {} : { contextId }),
    ...(referenceTaskIds === undefined ? {} : { referenceTaskIds }),
  };
}

/** Parameters the library can take. */
function checkParams(method: DoorMethod, params: JsonObject): JsonObject | A2aError {
  switch (method) {
    case "SendMessage":
    case "SendStreamingMessage": {
      const message = checkMessage(params);
      if ("code" in message) return message;
      const { configuration } = params;
      return {
        message,
        ...(isJsonObject(configuration)
          ? { configuration: typeof configuration.blocking === "boolean" ? { blocking: configuration.blocking } : {} }
          : {}),
      };
    }
    case "GetExtendedAgentCard":
      return {};
    default:
      return typeof params.id === "string" ? { id: params.id } : refused("id must be a string");
  }
}

/** Answers 0.3 requests. */
export class OlderJsonRpc implements OlderForm {
  readonly #transport: LegacyJsonRpcTransportHandler;

  constructor(handler: DoorRequestHandler) {
    this.#transport = new LegacyJsonRpcTransportHandler(handler);
  }

  isSpoken(version: string | null): boolean {
    return isOlderVersion(version);
  }

  method(name: string, takesTasks: boolean): DoorMethod | A2aError {
    const method = olderMethod(name, takesTasks);
    return typeof method === "string" ? method : olderError(method);
  }

  async answer(
    { id, method: name }: RpcRequest,
    method: DoorMethod,
    params: JsonObject,
    facts: CallFacts,
  ): Promise<DoorAnswer> {
    const checked = checkParams(method, params);
    if ("code" in checked) return { kind: "json", body: JSON.stringify({ jsonrpc: "2.0", id, error: checked }) };
    const call = new DoorCall(facts);
    const answer = await this.#transport.handle({ jsonrpc: "2.0", id, method: name, params: checked }, call);
    if (!(Symbol.asyncIterator in answer)) return { kind: "json", body: JSON.stringify(answer) };
    return streamed(
      { events: answer as AsyncGenerator<unknown, void, undefined>, close: () => call.stream?.close() },
      (envelope) => formatEvent(call.event!.id, call.event!.type, JSON.stringify(envelope)),
    );
  }
}
