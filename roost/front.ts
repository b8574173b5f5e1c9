/**
 * What is answered before anything is decided: nothing to a web page, and the health check (spec roost 2.4, 3.1). Pure.
 *
 * @module
 */
import { hostOfHeader, isLoopbackHost } from "../base/host_header.ts";
import { BOUNDS_HEADER, formatBounds, type RoostBounds } from "../base/roost_bounds.ts";
import type { HttpAnswer, HttpRequest } from "./http_server.ts";

/** An answer with an error. */
export function refused(status: number, message: string): HttpAnswer {
  return { status, body: JSON.stringify({ error: message }) };
}

/** The answer that says nothing but yes. */
export const EMPTY: HttpAnswer = { status: 200, body: "{}" };

const FOREIGN_HOST = refused(403, "this daemon does not answer for that host");
const WEB_PAGE = refused(403, "this daemon does not answer to web pages");

/** Path of a request's target, as it was sent. */
export function pathOf(target: string): string {
  const query = target.indexOf("?");
  return query < 0 ? target : target.slice(0, query);
}

/** The answer of the health check: nothing but yes, and in a header the bounds that hold (for `mur roost status`). */
export function healthAnswer(bounds: RoostBounds): HttpAnswer {
  return { ...EMPTY, field: [BOUNDS_HEADER, formatBounds(bounds)] };
}

/**
 * Answers what needs no decision.
 *
 * @param path Of the request's target.
 * @param health The answer of the health check.
 * @returns `null` for everything else.
 */
export function answerAtFront({ method, fields }: HttpRequest, path: string, health: HttpAnswer): HttpAnswer | null {
  if (!isOwnHost(fields.get("host"))) return FOREIGN_HOST;
  if (fields.has("origin")) return WEB_PAGE;
  return method === "GET" && path === "/health" ? health : null;
}

/** The last header that named this machine: most requests name it the same way. */
let ownHost: string | undefined;

function isOwnHost(header: string | undefined): boolean {
  if (header === undefined) return false;
  if (header === ownHost) return true;
  const host = hostOfHeader(header);
  if (host === null || !isLoopbackHost(host)) return false;
  ownHost = header;
  return true;
}
