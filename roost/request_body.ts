/**
 * Reading the JSON bodies of the three `POST` endpoints (spec roost 3). Pure; keys that are not asked for are ignored.
 *
 * @module
 */
import { parseArtifactName } from "../artifact/artifact_name.ts";
import { shownValue } from "../artifact/manifest/shown_value.ts";
import { isJsonObject, type JsonObject } from "../base/json_value.ts";
import type { DeregisterRequest, RegisterRequest, SpawnRequest } from "../base/roost_client.ts";

/** A body that is none: why, for a `400`. */
export class BadBody extends Error {
  override readonly name = "BadBody";
}

/** Longest session id that is taken, in characters; a runtime's own has 36. */
export const MAX_SESSION_ID = 128;

/** Deno decodes several times as fast when nothing is refused. */
const utf8 = new TextDecoder();
const strictUtf8 = new TextDecoder("utf-8", { fatal: true });
const REPLACEMENT = "\ufffd";

/** @throws {TypeError} When the bytes are not UTF-8. */
function decoded(bytes: Uint8Array): string {
  const text = utf8.decode(bytes);
  return text.includes(REPLACEMENT) ? strictUtf8.decode(bytes) : text;
}

function jsonBody(bytes: Uint8Array): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(decoded(bytes));
  } catch (cause) {
    // The parser quotes what it stumbled over.
    throw new BadBody(`invalid JSON: ${shownValue(cause instanceof SyntaxError ? cause.message : "not UTF-8")}`);
  }
  if (!isJsonObject(value)) throw new BadBody("invalid JSON: the body is not an object");
  return value;
}

function text(body: JsonObject, field: string): string {
  const value = Object.hasOwn(body, field) ? body[field] : undefined;
  if (value === undefined) throw new BadBody(`missing field '${field}'`);
  if (typeof value !== "string") throw new BadBody(`field '${field}' is not a string`);
  return value;
}

function fullName(body: JsonObject): string {
  const name = text(body, "name");
  if (!parseArtifactName(name)?.scope) {
    throw new BadBody(`field 'name' is not a full name, <scope>/<name>: '${shownValue(name)}'`);
  }
  return name;
}

/** @throws {BadBody} */
export function readSpawnRequest(bytes: Uint8Array): SpawnRequest {
  const body = jsonBody(bytes);
  return { name: fullName(body), version: text(body, "version") };
}

/** @throws {BadBody} */
export function readRegisterRequest(bytes: Uint8Array): RegisterRequest {
  const body = jsonBody(bytes);
  const session_id = text(body, "session_id");
  if (session_id === "") throw new BadBody("field 'session_id' is empty");
  if (session_id.length > MAX_SESSION_ID) {
    throw new BadBody(`field 'session_id' is longer than ${MAX_SESSION_ID} characters`);
  }
  // A token could not name it: half a character has no bytes.
  if (!session_id.isWellFormed()) throw new BadBody("field 'session_id' is not Unicode text");
  return { session_id, name: fullName(body), version: text(body, "version") };
}

/** @throws {BadBody} */
export function readDeregisterRequest(bytes: Uint8Array): DeregisterRequest {
  const outcome = text(jsonBody(bytes), "outcome");
  if (outcome !== "complete" && outcome !== "failed") {
    throw new BadBody("field 'outcome' is neither 'complete' nor 'failed'");
  }
  return { outcome };
}
