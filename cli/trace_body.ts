/**
 * `mur trace show --body`: the stored bytes behind one hash of a trace (spec trace 12.3.1). Works on a trace that has no
 * end. Every failure is `E-TRC-001`.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { RootedDir } from "../base/rooted_dir.ts";
import { isRootedError } from "../base/rooted_error.ts";
import { linesOf, type TraceLine, type TraceRecord } from "../runtime/trace/trace_reader.ts";
import { sha256Hex } from "../runtime/trace/trace_redaction.ts";

/** Largest body that is printed, in bytes. */
const MAX_BODY_BYTES = 1024 * 1024 * 1024;

/** A hash a trace names and what it is of. */
export interface NamedHash {
  readonly hash: string;
  /** `system prompt`, `tool schemas`, `response`, `message <i>`. */
  readonly what: string;
  /** `null`: the prompt as the operator wrote it, which belongs to no turn. */
  readonly turn: number | null;
}

function refuse(message: string, hint?: string): never {
  throw new MurError("E-TRC-001", message, hint === undefined ? {} : { hint });
}

function hashesOfTurn(line: TraceRecord<"inference">): NamedHash[] {
  const named = (what: string, hash: string | undefined): NamedHash[] =>
    typeof hash === "string" ? [{ hash, what, turn: line.turn }] : [];
  return [
    ...named("system prompt", line.system_sha),
    ...named("tool schemas", line.tools_sha),
    ...named("response", line.response_sha),
    ...(line.message_shas ?? []).flatMap((hash, index) => named(`message ${index}`, hash)),
  ];
}

/** Every hash a trace names. */
export function namedHashes(lines: readonly TraceLine[]): NamedHash[] {
  return [
    ...linesOf({ lines }, "session_start").flatMap((line) =>
      typeof line.system_prompt_sha256 === "string"
        ? [{ hash: line.system_prompt_sha256, what: "system prompt", turn: null }]
        : []
    ),
    ...linesOf({ lines }, "inference").flatMap(hashesOfTurn),
  ];
}

const SELECTORS: Readonly<Record<string, string>> = {
  system: "system prompt",
  tools: "tool schemas",
  response: "response",
};

/** The hash a selector names. @throws {MurError} `E-TRC-001`. */
export function selectBody(lines: readonly TraceLine[], selector: string, turn: number | null): NamedHash {
  const message = /^message:(\d+)$/.exec(selector);
  const what = message === null
    ? Object.hasOwn(SELECTORS, selector) ? SELECTORS[selector]! : null
    : `message ${Number(message[1])}`;
  if (what === null) return selectByHash(lines, selector, turn);

  const inferences = linesOf({ lines }, "inference");
  if (turn === null) {
    const turns = [...new Set(inferences.map((line) => line.turn))].join(", ");
    refuse(`--turn is required with --body ${selector}; this trace has turns ${turns === "" ? "none" : turns}`);
  }
  const ofTurn = inferences.filter((line) => line.turn === turn);
  if (ofTurn.length === 0) refuse(`turn ${turn} has no inference record in this trace`);
  // A hook's own call has no hashes, and a later task counts its turns from 0 again.
  const line = ofTurn.find((candidate) => candidate.system_sha !== undefined);
  if (line === undefined) {
    refuse(`turn ${turn} recorded no content hashes — the session ran under trace.capture: none`);
  }
  const found = hashesOfTurn(line).find((hash) => hash.what === what);
  if (found !== undefined) return found;
  return message === null
    ? refuse(`turn ${turn} recorded no hash of its ${what}`)
    : refuse(`turn ${turn} recorded ${line.message_shas?.length ?? 0} messages; there is no ${what}`);
}

function selectByHash(lines: readonly TraceLine[], prefix: string, turn: number | null): NamedHash {
  const named = namedHashes(lines).filter((hash) => turn === null || hash.turn === turn);
  const matches = /^[0-9a-f]{8,64}$/.test(prefix) ? named.filter(({ hash }) => hash.startsWith(prefix)) : [];
  const distinct = new Set(matches.map(({ hash }) => hash));
  if (distinct.size === 0) refuse(`no hash in this trace matches ${prefix}`);
  if (distinct.size > 1) {
    refuse(`${prefix} matches ${distinct.size} hashes — provide more characters\n  ${[...distinct].join("\n  ")}`);
  }
  return matches[0]!;
}

/**
 * The bytes behind a hash.
 *
 * @param recordsDir The session's records directory.
 * @throws {MurError} `E-TRC-001` when no body was stored, or what is stored is not what was hashed.
 */
export function storedBody(recordsDir: string, named: NamedHash): Uint8Array {
  const { hash, what, turn } = named;
  const subject = `${turn === null ? "the session's" : `turn ${turn}`} ${what} ${hash}`;
  if (!/^[0-9a-f]{64}$/.test(hash)) refuse(`${subject}: not a SHA-256`);
  let bytes: Uint8Array;
  try {
    using records = RootedDir.open(recordsDir);
    using file = records.openFile(`blobs/${hash}`, { follow: false });
    bytes = file.readAll(MAX_BODY_BYTES);
  } catch (cause) {
    if (!isRootedError(cause, "no-entry", "not-directory")) throw cause;
    refuse(
      `${subject}: recorded under capture: meta; no body was stored`,
      "set trace.capture: content in murmur.yaml to keep bodies",
    );
  }
  if (sha256Hex(bytes) !== hash) refuse(`${subject}: the stored body is not what was recorded`);
  return bytes;
}
