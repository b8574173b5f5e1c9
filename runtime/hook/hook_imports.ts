/**
 * Answers what a hook asks the runtime (spec components 2.5, 10.12). Who asks follows from the process, never from what it
 * says; what no honest host would send ends it.
 *
 * @module
 */
import { reasonOf } from "../../base/errors.ts";
import type { JsonValue } from "../../base/json_value.ts";
import type { Message } from "../agent/message.ts";
import type { CallContext } from "../component/component_runtime.ts";
import type { Header } from "../component/frames.ts";
import {
  countField,
  jsonBody,
  objectBody,
  optionalTextField,
  ProtocolViolation,
  textField,
} from "../component/host_messages.ts";
import { messagePage } from "./conversation_page.ts";
import type { HookInferenceRequest, HookInferenceResponse } from "./hook_inference.ts";
import { readHookMessage } from "./hook_output.ts";
import { type TaskIoError, textLength, textPiece } from "./task_text.ts";

/** Longest text in a request: that of a message from a host. */
const MAX_TEXT = 64 << 20;

/** The texts of the task in scope. */
export interface TaskTexts {
  /** With all feedback so far. */
  readonly asGiven: string;
  readonly original: string;
  /** Result of this attempt; `null` before there is one. */
  readonly output: string | null;
}

/** What one hook may ask, and of whom. */
export interface HookImportServices {
  /** `task_io.read` of its entry. */
  readonly mayReadTask: boolean;
  /** `conversation.read` of its entry. */
  readonly mayReadConversation: boolean;
  /** `null`: no task is in scope. */
  readonly task: () => TaskTexts | null;
  /** The record of the task's context, oldest first. @throws when it cannot be read. */
  readonly conversation: () => readonly Message[];
  readonly countTokens: (text: string) => Promise<number>;
  /** @throws {Error} whose text is the guest's `err`. */
  readonly runInference: (request: HookInferenceRequest, signal: AbortSignal) => Promise<HookInferenceResponse>;
}

/** The answers for one hook. */
export function hookImports(services: HookImportServices): NonNullable<CallContext["hookImport"]> {
  return async (name, body, ended) => {
    switch (name) {
      case "run-inference":
        return await services.runInference(inferenceRequest(objectBody(body)), ended);
      case "count-tokens": {
        const text = jsonBody(body);
        if (typeof text !== "string") throw new ProtocolViolation("a text to count is no text");
        return await services.countTokens(text);
      }
      case "task-io":
        return taskIo(services, objectBody(body));
      case "read-messages":
        return readMessages(services, objectBody(body));
      default:
        return undefined;
    }
  };
}

function inferenceRequest(value: Header): HookInferenceRequest {
  const messages = Array.isArray(value.messages)
    ? value.messages.map((message) => {
      const read = readHookMessage(message);
      if (read === null) throw new ProtocolViolation("a message of a request is none");
      return read;
    })
    : null;
  if (messages === null) throw new ProtocolViolation("a request without messages");
  const optional = (name: string) =>
    Object.hasOwn(value, name) && value[name] !== undefined ? optionalTextField(value, name, MAX_TEXT) : null;
  return { messages, systemPrompt: optional("systemPrompt"), model: optional("model") };
}

function taskIo(services: HookImportServices, value: Header): JsonValue {
  const refuse = (error: TaskIoError): never => {
    throw new Error(error);
  };
  const read = textField(value, "read", 16);
  if (!["input-len", "input", "output-len", "output"].includes(read)) {
    throw new ProtocolViolation(`an unknown read '${read}'`);
  }
  const form = read.startsWith("input") ? textField(value, "form", 16) : null;
  if (form !== null && form !== "as-given" && form !== "original") throw new ProtocolViolation("an unknown form");
  const offset = read.endsWith("-len") ? 0 : countField(value, "offset");
  const maxBytes = read.endsWith("-len") ? 0 : countField(value, "maxBytes");
  if (!services.mayReadTask) return refuse("not-granted");
  const task = services.task();
  if (task === null) return refuse("no-task");
  const text = form === null ? task.output : form === "original" ? task.original : task.asGiven;
  if (text === null) return refuse("no-output");
  if (read.endsWith("-len")) return textLength(text);
  return textPiece(text, offset, maxBytes) ?? refuse("out-of-range");
}

function readMessages(services: HookImportServices, value: Header): JsonValue {
  const cursor = optionalTextField(value, "cursor", MAX_TEXT);
  const limit = countField(value, "limit", 2 ** 32 - 1);
  if (!services.mayReadConversation) throw new Error("not-granted");
  let record: readonly Message[];
  try {
    record = services.conversation();
  } catch (cause) {
    throw new Error(`unavailable: ${reasonOf(cause)}`);
  }
  const page = messagePage(record, cursor, limit);
  if (page === null) throw new Error("invalid-cursor");
  return page;
}
