/**
 * `exports:`, what others see of the work folder (spec manifest 14).
 *
 * @module
 */
import { isScalar } from "yaml";
import { parseByteSize } from "../byte_size.ts";
import { parseDuration } from "../duration.ts";
import type { CapsuleManifest } from "./capsule_manifest.ts";
import type { Refusals } from "./manifest_error.ts";
import { type BlockReader, plainInteger } from "./manifest_reader.ts";
import { shownValue } from "./shown_value.ts";
import { scalarText, yamlType } from "./yaml_source.ts";

/** Largest exported file when nothing is written: 10 MiB. */
export const DEFAULT_EXPORT_BYTES = 10 * 1024 * 1024;

/** Life of a peer handle when `max_ttl` is not written, in seconds. */
export const DEFAULT_PEER_TTL_SECONDS = 60 * 60;

function readRoot(block: BlockReader, refuse: Refusals): string {
  const root = block.filled("root")?.trim() ?? null;
  if (root === null) throw refuse.config("exports", block.at("root"), "missing required field");
  if (root.startsWith("/")) {
    throw refuse.config("exports", block.at("root"), `'${shownValue(root)}' is not relative to the work folder`);
  }
  if (root.split("/").includes("..")) {
    throw refuse.config("exports", block.at("root"), `'${shownValue(root)}' has a '..' component`);
  }
  return root;
}

/** A size or duration above zero; `null` when it is not written. */
function readQuantity(
  block: BlockReader,
  key: string,
  parse: (text: string) => number | null,
  form: string,
  refuse: Refusals,
): number | null {
  const node = block.judged(key);
  if (node === null) return null;
  const value = plainInteger(node) ??
    (isScalar(node) && typeof node.value === "string" ? parse(scalarText(node)) : null);
  if (value !== null && value > 0) return value;
  const got = isScalar(node) ? `'${shownValue(scalarText(node))}'` : yamlType(node);
  throw refuse.config("exports", block.at(key), `must be ${form} above 0; got ${got}`);
}

const SIZE_FORM = "a size (bytes, or a number with Ki, Mi or Gi)";
const DURATION_FORM = "a duration (seconds, or a number with s, m, h or d)";

/** Reads the block. @throws {MurError} `E-MAN-003`. */
export function readExports(root: BlockReader, refuse: Refusals): CapsuleManifest["exports"] {
  const exports = root.child("exports");
  let files: CapsuleManifest["exports"]["files"] = null;
  if (exports.present("files")) {
    const block = exports.child("files");
    const folder = readRoot(block, refuse);
    const mode = block.filled("mode");
    if (mode !== "read-only") {
      const reason = mode === null ? "missing required field" : `got '${shownValue(mode)}'`;
      throw refuse.config("exports", block.at("mode"), `must be read-only; ${reason}`);
    }
    const maxBytes = readQuantity(block, "max_bytes", parseByteSize, SIZE_FORM, refuse) ?? DEFAULT_EXPORT_BYTES;
    files = { root: folder, maxBytes };
  }
  let peerFiles: CapsuleManifest["exports"]["peerFiles"] = null;
  if (exports.present("peer_files")) {
    const block = exports.child("peer_files");
    const folder = readRoot(block, refuse);
    const maxTtlSeconds = readQuantity(block, "max_ttl", parseDuration, DURATION_FORM, refuse);
    const maxBytes = readQuantity(block, "max_bytes", parseByteSize, SIZE_FORM, refuse) ?? DEFAULT_EXPORT_BYTES;
    peerFiles = { root: folder, maxTtlSeconds, maxBytes };
  }
  let peerTasks = false;
  if (exports.present("peer_tasks")) {
    const accept = exports.child("peer_tasks").boolean("accept");
    if (accept === null) {
      throw refuse.config("exports", "exports.peer_tasks.accept", "must be set explicitly to true or false");
    }
    peerTasks = accept;
  }
  return { files, peerFiles, peerTasks };
}
