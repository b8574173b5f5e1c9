/**
 * The refusals of reading `murmur.yaml`, each in its one shape (spec manifest 2.4).
 *
 * @module
 */
import { type ErrorCode, MurError, type SourcePlace } from "../../base/errors.ts";
import type { UnknownKey } from "./manifest_reader.ts";
import { shownValue } from "./shown_value.ts";
import { nearestKey } from "./unknown_keys.ts";
import { YamlProblem, type YamlSource } from "./yaml_source.ts";

/** Blocks that have a sentence of their own. */
export type ConfigArea =
  | "inference"
  | "capability"
  | "network"
  | "exports"
  | "trace"
  | "control"
  | "lifecycle"
  | "build";

/** The place of a path, or of the nearest block around it that is written. */
export function nearestPlace(source: YamlSource, path: string): SourcePlace | undefined {
  // A key may hold any character: each step must make the path shorter.
  for (let at = path; at !== ""; at = at.slice(0, Math.max(at.lastIndexOf("."), at.lastIndexOf("["), 0))) {
    const place = source.place(at);
    if (place !== undefined) return place;
  }
  return undefined;
}

/** `E-MAN-002`, with the position when there is one. */
export function yamlError(reason: string, place: SourcePlace | undefined, cause?: unknown): MurError {
  const where = place === undefined ? "" : ` at line ${place.line}, column ${place.column}`;
  return new MurError("E-MAN-002", `murmur.yaml: YAML syntax error${where}: ${reason}`, {
    ...(place === undefined ? {} : { place }),
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Turns a problem of the YAML itself into `E-MAN-002`; anything else is passed on. */
export function asYamlError(error: unknown): unknown {
  return error instanceof YamlProblem ? yamlError(error.reason, error.place, error) : error;
}

/** Makes the refusals of one file. */
export class Refusals {
  readonly #unknown: readonly UnknownKey[];

  /** @param unknown Keys no field claims: one of them may be what a missing field was meant to be. */
  constructor(readonly source: YamlSource, unknown: readonly UnknownKey[] = []) {
    this.#unknown = unknown;
  }

  #error(code: ErrorCode, message: string, path: string, hint?: string): MurError {
    const written = hint === undefined && this.source.place(path) === undefined ? this.#misspelt(path) : undefined;
    if (written !== undefined) {
      const place = nearestPlace(this.source, written) ?? this.source.placeAt(0);
      return new MurError(code, message, {
        place,
        hint: `'${shownValue(written)}' is not known; did you mean '${path}'?`,
      });
    }
    const place = nearestPlace(this.source, path) ?? this.source.placeAt(0);
    return new MurError(code, message, hint === undefined ? { place } : { place, hint });
  }

  /** Path of an unknown key that is a near miss of the one at `path`. */
  #misspelt(path: string): string | undefined {
    for (const { key, path: block, known } of this.#unknown) {
      const at = (name: string) => block === "" ? name : `${block}.${name}`;
      const nearest = nearestKey(key, known);
      if (nearest !== null && at(nearest) === path) return at(key);
    }
    return undefined;
  }

  /** A required field is absent or blank. */
  missing(field: string): MurError {
    return this.#error("E-MAN-001", `murmur.yaml: missing required field '${field}'`, field);
  }

  /** A value has the wrong YAML type. */
  type(path: string, expected: string, got: string): MurError {
    const subject = path === "" ? "the file" : `'${path}'`;
    const place = path === "" ? this.source.placeAt(0) : nearestPlace(this.source, path) ?? this.source.placeAt(0);
    return yamlError(`${subject} is ${got}, expected ${expected}`, place);
  }

  /** An `artifacts[]` entry is refused. `key` is the key of the entry at fault. */
  artifact(index: number, reason: string, key?: string, hint?: string): MurError {
    const entry = `artifacts[${index}]`;
    return this.#error(
      "E-MAN-003",
      `murmur.yaml: invalid artifact declaration at index ${index}: ${reason}`,
      key === undefined ? entry : `${entry}.${key}`,
      hint,
    );
  }

  /** A value of a block is refused. */
  config(area: ConfigArea, field: string, reason: string, hint?: string): MurError {
    return this.#error("E-MAN-003", `murmur.yaml: invalid ${area} config for '${field}': ${reason}`, field, hint);
  }

  /** A refusal with a code of its own. */
  coded(code: ErrorCode, message: string, path: string, hint?: string): MurError {
    return this.#error(code, message, path, hint);
  }
}
