/**
 * The operator plane (seed resource-plane, Endpoints): a listing of the exported folder, and its files by their path. Read
 * only, without the agent, whatever it does meanwhile.
 *
 * Nothing of a request but its method and its raw path counts: conditions, ranges and queries are ignored.
 *
 * @module
 */
import { percentDecodeForRecord } from "../base/percent_encoding.ts";
import type { ExportRoot } from "./export_root.ts";
import { type Admit, readExported } from "./file_reader.ts";
import { type ListedFile, listExported } from "./listing.ts";
import {
  isRefusal,
  type OperatorError,
  type PlaneAnswer,
  type PlaneRefusal,
  refusal,
  refusalAnswer,
} from "./plane_refusal.ts";
import type { Room } from "./read_admission.ts";
import { requestedPath } from "./request_path.ts";

/** What the plane answers from. */
export interface OperatorPlane {
  readonly root: ExportRoot;
  /** The class this session achieved. */
  readonly containment: string;
  /** Tasks of this process that have ended. */
  readonly generation: () => number;
  /** Longest time of one listing, in milliseconds. */
  readonly listingMs: number;
}

/** One line of the trace (spec trace 6.8). */
export type OperatorRecord =
  | {
    readonly type: "resource_list";
    readonly body: {
      readonly root: string;
      readonly entry_count: number;
      readonly total_bytes: number;
      readonly generation: number;
      readonly containment_achieved: string;
      readonly outcome: "ok" | OperatorError;
      readonly reason: string | null;
    };
  }
  | {
    readonly type: "resource_read";
    readonly body: {
      readonly path: string;
      readonly outcome: "ok" | OperatorError;
      readonly bytes: number | null;
      readonly sha256: string | null;
      readonly generation: number;
      readonly containment_achieved: string;
      readonly reason: string | null;
    };
  };

/** Path of the listing. */
export const LISTING_PATH = "/resources/files";

/** The text behind `/resources/files/`, still encoded; `null` for a path that names no file of the plane. */
export function encodedFilePath(rawPath: string): string | null {
  return rawPath.startsWith(`${LISTING_PATH}/`) ? rawPath.slice(LISTING_PATH.length + 1) : null;
}

/** The path a read's record shows: decoded, not judged. */
export function recordedPath(rawPath: string): string {
  return percentDecodeForRecord(encodedFilePath(rawPath) ?? rawPath);
}

/** What a request is told of a plane that is read only. */
export const READ_WITH_GET = "the planes are read with GET";

/** Where a listing takes its turn: one at a time keeps the disk busy, and the next sees the same files. */
export type TakeTurn = () => Promise<Room | null>;

const BUSY = refusal("too_many_answers", "as many large answers are being made as are held at once; try again");

/** Answers a request for a listing. */
export async function answerListing(
  plane: OperatorPlane,
  method: string,
  takeTurn: TakeTurn,
  admit: Admit,
): Promise<PlaneAnswer<OperatorRecord>> {
  const { root, containment } = plane;
  let generation = plane.generation();
  const record = (
    outcome: "ok" | OperatorError,
    reason: string | null,
    entries: readonly ListedFile[] = [],
  ): OperatorRecord => ({
    type: "resource_list",
    body: {
      root: root.options.root,
      entry_count: entries.length,
      total_bytes: entries.reduce((sum, { size_bytes }) => sum + size_bytes, 0),
      generation,
      containment_achieved: containment,
      outcome,
      reason,
    },
  });
  const refused = (why: PlaneRefusal<OperatorError>) => refusalAnswer(why, record(why.error, why.message));
  if (method !== "GET") return refused(refusal("method_not_allowed", READ_WITH_GET));
  const turn = await takeTurn();
  if (turn === null) return refused(BUSY);
  // Tasks may have ended while it waited.
  generation = plane.generation();
  try {
    const entries = await listExported(root, plane.listingMs);
    if (isRefusal(entries)) return refused(entries);
    const body = new TextEncoder().encode(JSON.stringify({
      root: root.options.root,
      mode: "read-only",
      max_bytes: root.options.maxBytes,
      generation,
      containment_achieved: containment,
      entries,
    }));
    if (!await admit(body.length)) return refused(BUSY);
    return {
      status: 200,
      headers: [["content-type", "application/json"], ["connection", "close"]],
      body,
      record: record("ok", null, entries),
    };
  } finally {
    turn.release();
  }
}

/** Answers a request for a file, or for a path below `/resources` that is no plane's. */
export async function answerRead(
  plane: OperatorPlane,
  method: string,
  rawPath: string,
  admit: Admit,
): Promise<PlaneAnswer<OperatorRecord>> {
  const { root, containment } = plane;
  let generation = plane.generation();
  const record = (
    outcome: "ok" | OperatorError,
    reason: string | null,
    read: { readonly bytes: number | null; readonly sha256: string | null } = { bytes: null, sha256: null },
  ): OperatorRecord => ({
    type: "resource_read",
    body: {
      path: recordedPath(rawPath),
      outcome,
      bytes: read.bytes,
      sha256: read.sha256,
      generation,
      containment_achieved: containment,
      reason,
    },
  });
  const refused = (why: PlaneRefusal<OperatorError>) => refusalAnswer(why, record(why.error, why.message));
  if (method !== "GET") return refused(refusal("method_not_allowed", READ_WITH_GET));
  const encoded = encodedFilePath(rawPath);
  if (encoded === null) return refused(refusal("not_found", `files lie below ${LISTING_PATH}/`));
  const requested = requestedPath(encoded);
  if (isRefusal(requested)) return refused(requested);
  const file = await readExported(root, requested.path, admit, () => generation = plane.generation());
  if (isRefusal(file)) return refused(file);
  const { bytes, mtimeMs, sha256 } = file;
  return {
    status: 200,
    headers: [
      ...validatorHeaders({ mtimeMs, sha256, generation, containment }),
      ["x-murmur-export-root", headerText(root.options.root)],
      ["connection", "close"],
    ],
    body: bytes,
    record: record("ok", null, { bytes: bytes.length, sha256 }),
  };
}

/** Headers that every served file of either plane carries, in the order of the seed. */
export function validatorHeaders(
  file: {
    readonly mtimeMs: number;
    readonly sha256: string;
    readonly generation: number;
    readonly containment: string;
  },
): [string, string][] {
  return [
    ["content-type", "application/octet-stream"],
    ["etag", `"sha256:${file.sha256}"`],
    ["x-murmur-mtime-ms", String(file.mtimeMs)],
    ["x-murmur-generation", String(file.generation)],
    ["x-murmur-containment", file.containment],
  ];
}

/** A text as a header can carry it: its UTF-8 bytes, each one character, control characters percent-encoded. */
function headerText(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => {
    const isControl = byte < 0x20 || byte === 0x7f;
    return isControl ? `%${byte.toString(16).toUpperCase().padStart(2, "0")}` : String.fromCharCode(byte);
  }).join("");
}
