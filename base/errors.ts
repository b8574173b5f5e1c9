/**
 * Errors as values: every failure an operator can meet carries a code of the published list, a message that names what
 * is wrong, at most one hint that says what to do, and, for files the operator wrote, the place in them.
 *
 * Strings for a terminal are made only by {@linkcode formatError} and {@linkcode formatWarning} (spec diagnostics 1).
 *
 * @module
 */

/** Code of an error, `E-<area>-<nnn>` (spec diagnostics 2 to 7). */
export type ErrorCode = `E-${string}-${string}`;

/** Code of a warning, `W-<area>-<nnn>` (spec diagnostics 8, 9). */
export type WarningCode = `W-${string}-${string}`;

/** A place in a file the operator wrote. Lines and columns count from 1. */
export interface SourcePlace {
  /** Path as the operator would name it. */
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** The whole line, without its line ending. */
  readonly text: string;
}

/** What an error may carry besides code and message. */
export interface MurErrorOptions {
  /** What the operator can do, one sentence. */
  readonly hint?: string;
  readonly place?: SourcePlace;
  readonly cause?: unknown;
}

/** A failure with a published code. Domain modules throw nothing else. */
export class MurError extends Error {
  override readonly name = "MurError";
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly place: SourcePlace | undefined;

  constructor(code: ErrorCode, message: string, options: MurErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.hint = options.hint;
    this.place = options.place;
  }
}

/** Who raised a warning; it decides the prefix of its line (spec diagnostics 1.2). */
export type WarningSource = "capsule-runtime" | "murmur-artifact" | "mur doctor" | null;

/** A finding that does not stop the command. */
export interface Warning {
  readonly code: WarningCode;
  readonly source: WarningSource;
  readonly message: string;
  /** Further lines, printed indented below. */
  readonly details?: readonly string[];
}

/** Takes warnings as they are found. */
export type WarningSink = (warning: Warning) => void;

/** Renders an error for stderr, without a trailing newline. */
export function formatError(error: MurError): string {
  const lines = [`error[${error.code}]: ${error.message}`];
  if (error.place !== undefined) {
    const { file, line, column, text } = error.place;
    lines.push(`  --> ${file}:${line}:${column}`);
    lines.push(`   | ${text}`);
    // Tabs are kept so that the mark stands below its column whatever the tab width.
    const pad = text.slice(0, column - 1).replace(/[^\t]/g, " ");
    lines.push(`   | ${pad}^`);
  }
  if (error.hint !== undefined) lines.push(`  hint: ${error.hint}`);
  return lines.join("\n");
}

/** Where every code is explained, one heading each. */
const CODE_LIST = "https://github.com/murmur-nexus/murmur/blob/main/docs/codes.md";

/** Address of a code's explanation. */
export function codeLink(code: ErrorCode | WarningCode): string {
  return `${CODE_LIST}#${code.toLowerCase()}`;
}

/** Warnings whose hint and link stand on lines of their own (spec diagnostics 1.2). */
const LINKED_BELOW = /^W-BLD-|^W-SEC-004$/;

/** Renders a warning for stderr, without a trailing newline. */
export function formatWarning(warning: Warning): string {
  const { code, source, message, details = [] } = warning;
  const start = `${source === null ? "" : `[${source}] `}warning[${code}]: ${message}`;
  return LINKED_BELOW.test(code)
    ? [start, ...[...details, codeLink(code)].map((line) => `  → ${line}`)].join("\n")
    : [`${start} (${codeLink(code)})`, ...details.map((line) => `  ${line}`)].join("\n");
}

/**
 * Maps a failed file operation to its code: not found `E-IO-001`, permission denied `E-IO-002`, anything else
 * `E-IO-003` (spec diagnostics 2).
 *
 * @param what Verb phrase naming the operation and the path, e.g. `read /tmp/x`.
 */
export function ioError(what: string, cause: unknown, hint?: string): MurError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const options: MurErrorOptions = hint === undefined ? { cause } : { cause, hint };
  if (cause instanceof Deno.errors.NotFound) return new MurError("E-IO-001", `cannot ${what}: not found`, options);
  if (cause instanceof Deno.errors.PermissionDenied) {
    return new MurError("E-IO-002", `cannot ${what}: permission denied`, options);
  }
  return new MurError("E-IO-003", `cannot ${what}: ${reason}`, options);
}

/** Text of an unknown thrown value, for messages. */
export function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
