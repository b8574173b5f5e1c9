/**
 * Bodies of A2A 0.3's HTTP+JSON binding, which are the JSON of its protobuf messages: made from those of 1.0 and back (spec
 * door 6.1). The library translates 0.3's JSON-RPC form only. Pure.
 *
 * @module
 */
import { isJsonObject, type JsonObject, type JsonValue } from "../../base/json_value.ts";

function mapList(value: JsonValue | undefined, map: (item: JsonObject) => JsonValue): JsonValue {
  return Array.isArray(value) ? value.map((item: JsonValue) => (isJsonObject(item) ? map(item) : item)) : value ?? null;
}

/** A part as 1.0 writes it. */
function newerPart(part: JsonObject): JsonObject {
  const { file, data, ...rest } = part;
  if (isJsonObject(file)) {
    const { fileWithUri, fileWithBytes, mimeType } = file;
    return {
      ...(fileWithUri === undefined ? {} : { url: fileWithUri }),
      ...(fileWithBytes === undefined ? {} : { raw: fileWithBytes }),
      ...(mimeType === undefined ? {} : { mediaType: mimeType }),
    };
  }
  return isJsonObject(data) ? { data: data.data ?? {} } : rest;
}

/** Parameters of a message method as 1.0 writes them. */
export function newerMessageParams({ message, configuration }: JsonObject): JsonObject {
  if (!isJsonObject(message)) return {};
  const { content, ...rest } = message;
  return {
    message: { ...rest, parts: mapList(content, newerPart) },
    ...(isJsonObject(configuration) ? { configuration: { returnImmediately: configuration.blocking !== true } } : {}),
  };
}

function olderPart({ text, data }: JsonObject): JsonObject {
  if (data === undefined) return { text: text ?? "" };
  return { data: { data: isJsonObject(data) ? data : { value: data } } };
}

function olderMessage({ parts, ...rest }: JsonObject): JsonObject {
  return { ...rest, content: mapList(parts, olderPart) };
}

function olderArtifact({ parts, ...rest }: JsonObject): JsonObject {
  return { ...rest, parts: mapList(parts, olderPart) };
}

const FINAL: ReadonlySet<JsonValue | undefined> = new Set([
  "TASK_STATE_COMPLETED",
  "TASK_STATE_FAILED",
  "TASK_STATE_CANCELED",
  "TASK_STATE_REJECTED",
]);

function olderStatus({ state, message, ...rest }: JsonObject): JsonObject {
  return {
    ...rest,
    state: state === "TASK_STATE_CANCELED" ? "TASK_STATE_CANCELLED" : state ?? "TASK_STATE_UNSPECIFIED",
    ...(isJsonObject(message) ? { message: olderMessage(message) } : {}),
  };
}

/** A task as 0.3 writes it. */
export function olderTask({ status, artifacts, ...rest }: JsonObject): JsonObject {
  return {
    ...rest,
    ...(isJsonObject(status) ? { status: olderStatus(status) } : {}),
    ...(artifacts === undefined ? {} : { artifacts: mapList(artifacts, olderArtifact) }),
  };
}

/** An event of a task's stream as 0.3 writes it. */
export function olderEvent({ task, statusUpdate, artifactUpdate }: JsonObject): JsonObject {
  if (isJsonObject(task)) return { task: olderTask(task) };
  if (isJsonObject(statusUpdate)) {
    const { status, ...rest } = statusUpdate;
    if (!isJsonObject(status)) return { statusUpdate: rest };
    return { statusUpdate: { ...rest, status: olderStatus(status), final: FINAL.has(status.state) } };
  }
  if (isJsonObject(artifactUpdate)) {
    const { artifact, ...rest } = artifactUpdate;
    return { artifactUpdate: { ...rest, ...(isJsonObject(artifact) ? { artifact: olderArtifact(artifact) } : {}) } };
  }
  return {};
}

/** The extended card as 0.3 writes it. */
export function olderCard(card: JsonObject): JsonObject {
  return { ...card, security: card.securityRequirements ?? [] };
}
