/**
 * `console`: lines on the guest's standard output and error, which the runtime shows with the artifact's name in front
 * (spec components 3.5).
 *
 * @module
 */
import { dispose, host, type OutputStream } from "./host.ts";

const DEPTH = 4;
const ITEMS = 100;
// What an output stream promises to take in one blocking write.
const WRITE_BYTES = 4096;

function quoted(value: unknown, depth: number, seen: readonly object[]): string {
  return typeof value === "string" ? JSON.stringify(value) : shown(value, depth, seen);
}

function listed(parts: string[], total: number, open: string, close: string): string {
  if (total > parts.length) parts.push(`… ${total - parts.length} more`);
  return parts.length === 0 ? `${open}${close}` : `${open} ${parts.join(", ")} ${close}`;
}

/** A value as one line of text, for people. */
export function shown(value: unknown, depth = DEPTH, seen: readonly object[] = []): string {
  if (typeof value === "string") return value;
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return `[Function ${value.name || "anonymous"}]`;
  if (typeof value !== "object" || value === null) return String(value);
  if (value instanceof Error) {
    const stack = value.stack?.trimEnd() ?? "";
    return `${value.name}: ${value.message}${stack === "" ? "" : `\n${stack}`}`;
  }
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
  if (value instanceof RegExp || value instanceof URL) return String(value);
  if (seen.includes(value)) return "[Circular]";
  if (depth === 0) return Array.isArray(value) ? "[Array]" : "[Object]";
  const inner = [...seen, value];
  const one = (item: unknown) => quoted(item, depth - 1, inner);
  if (Array.isArray(value)) return listed(value.slice(0, ITEMS).map(one), value.length, "[", "]");
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    const items = Array.from(value as unknown as ArrayLike<number>);
    return `${value.constructor.name} ${listed(items.slice(0, ITEMS).map(String), items.length, "[", "]")}`;
  }
  if (value instanceof Map) {
    const items = [...value].map(([key, item]) => `${one(key)} => ${one(item)}`);
    return `Map ${listed(items.slice(0, ITEMS), items.length, "{", "}")}`;
  }
  if (value instanceof Set) {
    const items = [...value].map(one);
    return `Set ${listed(items.slice(0, ITEMS), items.length, "{", "}")}`;
  }
  const entries = Object.entries(value);
  const name = value.constructor?.name ?? "";
  const text = listed(entries.slice(0, ITEMS).map(([key, item]) => `${key}: ${one(item)}`), entries.length, "{", "}");
  return name === "" || name === "Object" ? text : `${name} ${text}`;
}

function writeLine(open: () => OutputStream, values: unknown[]): void {
  const bytes = new TextEncoder().encode(`${values.map((value) => shown(value)).join(" ")}\n`);
  const stream = open();
  try {
    for (let offset = 0; offset < bytes.length; offset += WRITE_BYTES) {
      stream.blockingWriteAndFlush(bytes.subarray(offset, offset + WRITE_BYTES));
    }
  } catch {
    // Output that no one takes any more must not end the call.
  } finally {
    dispose(stream);
  }
}

const out = (...values: unknown[]) => writeLine(() => host().stdout.getStdout(), values);
const err = (...values: unknown[]) => writeLine(() => host().stderr.getStderr(), values);

/** The global `console`. */
export const console = {
  log: out,
  info: out,
  debug: out,
  warn: err,
  error: err,
} as const;
