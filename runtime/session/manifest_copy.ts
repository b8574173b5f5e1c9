/**
 * The copy of the manifest that lies in the runtime directory, where commands and tools read it: a key written into the
 * manifest is no part of it (spec session 3.5, components 5).
 *
 * @module
 */
import { isScalar, parseDocument, visit } from "yaml";
import type { CapsuleManifest } from "../../artifact/manifest/capsule_manifest.ts";

/** What stands where a key was. */
const WITHHELD = '"***"';

/** The manifest's text with every literal `gateway.api_key` withheld, wherever in it the value stands. */
export function withoutLiteralKeys({ text, artifacts }: Pick<CapsuleManifest, "text" | "artifacts">): string {
  const keys = new Set(
    artifacts.flatMap(({ gateway }) =>
      gateway?.credential?.kind === "literal" ? [gateway.credential.value.trim()] : []
    ),
  );
  if (keys.size === 0) return text;
  const ranges: (readonly [number, number])[] = [];
  // By value: an anchor elsewhere may carry it, in any way YAML has to write a text.
  visit(parseDocument(text), {
    Scalar(_, node) {
      if (isScalar(node) && keys.has(String(node.value).trim()) && node.range) {
        ranges.push([node.range[0], node.range[1]]);
      }
    },
  });
  let copy = text;
  for (const [start, end] of ranges.sort((a, b) => b[0] - a[0])) {
    // A block of lines ends with its line break.
    copy = copy.slice(0, start) + WITHHELD + (copy[end - 1] === "\n" ? "\n" : "") + copy.slice(end);
  }
  // What is left stands in comments.
  for (const key of keys) copy = copy.replaceAll(key, "***");
  return copy;
}
