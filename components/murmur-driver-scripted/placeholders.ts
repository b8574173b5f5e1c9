/**
 * `{{…}}` in a script's texts: the task, and what tool calls gave.
 *
 * @module
 */

/** What placeholders can name. */
export interface PlaceholderValues {
  readonly task: string;
  readonly model: string;
  /** Texts of the tool results since the user message, in order, as the model gets them. */
  readonly results: readonly string[];
}

/** A placeholder that names nothing. */
export class PlaceholderError extends Error {
  override readonly name = "PlaceholderError";
}

const OPENING = /^<untrusted-content source=[^>]*>\n/;
const CLOSING = /\n<\/untrusted-content>\s*$/;

/** A tool result without the fence the runtime puts around it (spec components 8.9). */
export function withoutFence(text: string): string {
  return OPENING.test(text) && CLOSING.test(text) ? text.replace(OPENING, "").replace(CLOSING, "") : text;
}

/** A part of a shell tool's result (spec components 8.7). */
function shellPart(result: string, part: string): string | null {
  if (part === "exit_code") return /^Exit code: (-?\d+)$/m.exec(result)?.[1] ?? null;
  const body = /\nStdout:\n?([\s\S]*?)\n?Stderr:\n?([\s\S]*)$/.exec(result);
  if (body === null) return null;
  const text = part === "stdout" ? body[1] : part === "stderr" ? body[2] : undefined;
  return text === undefined ? null : text.replace(/\n+$/, "");
}

function jsonMember(result: string, path: readonly string[]): string | null {
  let value: unknown;
  try {
    value = JSON.parse(result);
  } catch {
    return null;
  }
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return null;
    value = (value as Record<string, unknown>)[key];
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}

function resolve(name: string, values: PlaceholderValues): string | null {
  if (name === "task") return values.task;
  if (name === "model") return values.model;
  const [root, index = "", ...rest] = name.split(".");
  if (root !== "results") return null;
  const result = index === "last"
    ? values.results.at(-1)
    : /^\d+$/.test(index)
    ? values.results[Number(index)]
    : undefined;
  if (result === undefined) return null;
  const plain = withoutFence(result);
  const [part, ...path] = rest;
  if (part === undefined) return plain;
  if (part === "json") return jsonMember(plain, path);
  return path.length === 0 ? shellPart(plain, part) : null;
}

/**
 * Replaces the placeholders of one text. Replaced text is not searched again.
 *
 * @throws {PlaceholderError} When one names nothing that is there.
 */
export function fillText(text: string, values: PlaceholderValues): string {
  return text.replace(/\{\{\s*([^{}]+?)\s*\}\}/g, (whole, name: string) => {
    const value = resolve(name, values);
    if (value === null) {
      throw new PlaceholderError(`${whole} names nothing; ${values.results.length} tool results are there`);
    }
    return value;
  });
}

/** Replaces the placeholders in every string of a value. */
export function fillValue(value: unknown, values: PlaceholderValues): unknown {
  if (typeof value === "string") return fillText(value, values);
  if (Array.isArray(value)) return value.map((item) => fillValue(item, values));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fillValue(item, values)]));
}
