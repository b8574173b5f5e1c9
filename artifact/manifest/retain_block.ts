/**
 * `trace.retain` and `context.retain`: what is kept of what earlier sessions left (spec manifest 18). A mistake in them
 * would delete things, so they refuse where other blocks only warn.
 *
 * @module
 */
import { isMap, isScalar } from "yaml";
import { parseDuration } from "../duration.ts";
import type { RetainByCount } from "./capsule_manifest.ts";
import type { ConfigArea, Refusals } from "./manifest_error.ts";
import { type BlockReader, plainInteger } from "./manifest_reader.ts";
import { shownValue } from "./shown_value.ts";
import { scalarText, yamlType } from "./yaml_source.ts";

/**
 * Reads a `retain:` of `parent`; `null` when the key is not written, which deletes nothing.
 *
 * @param countKey `max_sessions` or `max_messages`.
 * @throws {MurError} `E-MAN-003`, naming the block or the key.
 */
export function readRetain(
  parent: BlockReader,
  countKey: string,
  area: ConfigArea,
  refuse: Refusals,
): RetainByCount | null {
  if (!parent.written("retain")) return null;
  const path = parent.at("retain");
  const node = parent.judged("retain");
  const accepted = `accepted keys: ${countKey}, max_age`;
  if (node !== null && !isMap(node)) {
    throw refuse.config(area, path, `expected a mapping, got ${yamlType(node)}; ${accepted}`);
  }
  const entries = node === null ? [] : parent.source.entries(node);
  if (entries.length === 0) throw refuse.config(area, path, `is empty; ${accepted}`);
  let maxCount: number | null = null;
  let maxAgeSeconds: number | null = null;
  for (const { key, value } of entries) {
    const field = `${path}.${key}`;
    if (key === countKey) {
      maxCount = value === null ? null : plainInteger(value);
      if (maxCount === null || maxCount === 0) {
        throw refuse.config(
          area,
          field,
          `must be a whole number of at least 1, got ${maxCount === 0 ? 0 : yamlType(value)}`,
        );
      }
    } else if (key === "max_age") {
      const whole = value === null ? null : plainInteger(value);
      maxAgeSeconds = whole ?? (isScalar(value) ? parseDuration(scalarText(value)) : null);
      if (maxAgeSeconds === null || maxAgeSeconds === 0) {
        const got = isScalar(value) ? `'${shownValue(scalarText(value))}'` : yamlType(value);
        throw refuse.config(
          area,
          field,
          `must be a duration above 0: seconds, or a number with s, m, h or d; got ${got}`,
        );
      }
    } else {
      const shown = key === null ? "a key that is no name" : `unknown key '${shownValue(key)}'`;
      throw refuse.config(area, path, `${shown}; ${accepted}`);
    }
  }
  return { maxCount, maxAgeSeconds };
}
