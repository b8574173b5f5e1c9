/**
 * The JSON-RPC envelope of a request, and answers in it (spec door 2 steps 6 and 7, 5.1, 5.2). Pure.
 *
 * @module
 */
import { isJsonObject, type JsonValue } from "../../base/json_value.ts";
import { type A2aError, INVALID_JSON, INVALID_REQUEST } from "./a2a_error.ts";

/** Deepest nesting of lists and objects a body may have. */
export const MAX_JSON_DEPTH = 64;

/**
 * Most values a body may hold, those inside lists and objects counted too. Each costs its parser many times its bytes, and
 * again when it is written out for the agent: 16 MiB of empty objects took 400 MB.
 */
export const MAX_JSON_VALUES = 250_000;

/** Id of a request. */
export type RpcId = string | number;

/** A request whose envelope is in order. */
export interface RpcRequest {
  readonly id: RpcId;
  readonly method: string;
  /** As sent; `undefined` when absent. */
  readonly params: JsonValue | undefined;
}

/** What a body is. */
export type ParsedBody =
  | { readonly ok: true; readonly request: RpcRequest }
  | { readonly ok: false; readonly id: RpcId | null; readonly error: A2aError };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Bounds of a JSON text. */
export interface JsonBounds {
  /** Deepest nesting of lists and objects. */
  readonly depth: number;
  /** Most values; an empty list or object may count as two. */
  readonly values: number;
}

/**
 * Whether a JSON text nests deeper or holds more values than it may. It reads the text once and needs no stack, so that such
 * a text costs its parser nothing. For a text that is no JSON the answer may be either.
 */
export function exceedsBounds(text: string, bounds: JsonBounds): boolean {
  let depth = 0;
  // The first value of every list and object, and of the text; every other one stands behind a comma.
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        for (at++; at < text.length; at++) {
          const code = text.charCodeAt(at);
          if (code === QUOTE) break;
          if (code === BACKSLASH) at++;
        }
        break;
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > bounds.depth || ++values > bounds.values) return true;
        break;
      case 0x2c: // ,
        if (++values > bounds.values) return true;
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth--;
    }
  }
  return false;
}

/** Reads JSON within bounds; `undefined` when it is none or exceeds them. */
export function parseBoundedJson(text: string): JsonValue | undefined {
  if (exceedsBounds(text, { depth: MAX_JSON_DEPTH, values: MAX_JSON_VALUES })) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function readId(value: unknown): RpcId | null {
  return typeof value === "string" || Number.isSafeInteger(value) ? value as RpcId : null;
}

/** Reads a request's body. */
export function parseRpcRequest(text: string): ParsedBody {
  const body = parseBoundedJson(text);
  if (body === undefined) return { ok: false, id: null, error: INVALID_JSON };
  if (!isJsonObject(body)) return { ok: false, id: null, error: INVALID_REQUEST };
  const id = readId(body.id);
  if (id === null || body.jsonrpc !== "2.0" || typeof body.method !== "string") {
    return { ok: false, id, error: INVALID_REQUEST };
  }
  return { ok: true, request: { id, method: body.method, params: body.params } };
}

/** Whether a door answers a request with this `A2A-Version`; several header lines arrive joined by `, `. */
export function isServedVersion(header: string | null): boolean {
  if (header === null) return false;
  const version = header.trim();
  return version === "1.0" || /^1\.0\.[0-9]+$/.test(version);
}

/** The answer that carries an error. */
export function errorAnswer(id: RpcId | null, error: A2aError): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error });
}

/** The answer that carries a result. */
export function resultAnswer(id: RpcId, result: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", id, result });
}

/** The same with a result that is JSON text already. */
export function resultTextAnswer(id: RpcId, result: string): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`;
}
