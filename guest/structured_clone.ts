/**
 * `structuredClone` for data: primitives, plain objects, arrays, dates, regular expressions, maps, sets, errors, buffers
 * and typed arrays, circles and shared references included (WHATWG HTML 2.7). Nothing is transferred.
 *
 * @module
 */

/** The global `structuredClone`. */
export function structuredClone<T>(value: T): T {
  return clone(value, new Map()) as T;
}

function uncloneable(what: string): DOMException {
  return new DOMException(`${what} cannot be cloned`, "DataCloneError");
}

function clone(value: unknown, seen: Map<object, unknown>): unknown {
  if (typeof value === "symbol" || typeof value === "function") throw uncloneable(`a ${typeof value}`);
  if (typeof value !== "object" || value === null) return value;
  if (seen.has(value)) return seen.get(value);
  const keep = <C>(copy: C): C => {
    seen.set(value, copy);
    return copy;
  };
  if (value instanceof Boolean || value instanceof Number || value instanceof String) {
    return keep(Object(value.valueOf()));
  }
  if (value instanceof Date) return keep(new Date(value.getTime()));
  if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
  if (value instanceof ArrayBuffer) return keep(value.slice(0));
  if (ArrayBuffer.isView(value)) {
    const buffer = clone(value.buffer, seen) as ArrayBuffer;
    const View = value.constructor as new (buffer: ArrayBuffer, offset: number, length: number) => ArrayBufferView;
    const length = value instanceof DataView ? value.byteLength : (value as Uint8Array).length;
    return keep(new View(buffer, value.byteOffset, length));
  }
  if (value instanceof Map) {
    const copy = keep(new Map());
    for (const [key, item] of [...value]) copy.set(clone(key, seen), clone(item, seen));
    return copy;
  }
  if (value instanceof Set) {
    const copy = keep(new Set());
    for (const item of [...value]) copy.add(clone(item, seen));
    return copy;
  }
  if (value instanceof Error) {
    const known = [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError];
    const Kind = known.find((kind) => kind.name === value.name) ?? Error;
    const copy = keep(new Kind(value.message));
    const copied: Record<string, unknown> = { stack: value.stack };
    if ("cause" in value) copied["cause"] = clone(value.cause, seen);
    for (const [key, item] of Object.entries(copied)) {
      Object.defineProperty(copy, key, { value: item, writable: true, configurable: true, enumerable: false });
    }
    return copy;
  }
  if (value instanceof WeakMap || value instanceof WeakSet || value instanceof WeakRef || "then" in value) {
    throw uncloneable(`a ${value.constructor.name}`);
  }
  const copy: Record<string, unknown> | unknown[] = keep(Array.isArray(value) ? new Array(value.length) : {});
  for (const key of Object.keys(value)) {
    Object.defineProperty(copy, key, {
      value: clone((value as Record<string, unknown>)[key], seen),
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
  return copy;
}
