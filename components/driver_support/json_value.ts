/**
 * Reading JSON whose shape nobody guarantees.
 *
 * @module
 */

/** A JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Whether a value is an object and no list. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A member as an object, `{}` when it is none. */
export function objectAt(value: unknown, key: string): JsonObject {
  const member = isObject(value) ? value[key] : undefined;
  return isObject(member) ? member : {};
}

/** A member as text, `""` when it is none. */
export function textAt(value: unknown, key: string): string {
  const member = isObject(value) ? value[key] : undefined;
  return typeof member === "string" ? member : "";
}

/** A member as a count, `undefined` when it is none. */
export function countAt(value: unknown, key: string): number | undefined {
  const member = isObject(value) ? value[key] : undefined;
  return typeof member === "number" && Number.isSafeInteger(member) && member >= 0 ? member : undefined;
}

/** A text as JSON, `undefined` when it is none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The members that are not `undefined`. */
export function defined<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, member]) => member !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
