/**
 * `observability:`, exported spans and what evaluation hooks are told (spec manifest 16).
 *
 * @module
 */
import type { JsonObject, JsonValue } from "../../base/json_value.ts";
import type { CapsuleManifest } from "./capsule_manifest.ts";
import { yamlError } from "./manifest_error.ts";
import type { BlockReader } from "./manifest_reader.ts";
import { shownValue } from "./shown_value.ts";

/** Bounds a scorer has when it writes none. */
const DEFAULT_MAX: Readonly<Record<string, number>> = { max_turns: 10, max_tokens: 100_000 };
const SCORERS = ["exit_ok", "max_turns", "max_tokens", "tool_sequence", "llm_judge"];

function readScorer(scorer: BlockReader, notices: string[]): JsonObject | null {
  const type = scorer.filled("type");
  if (type === null) {
    throw yamlError(`'${scorer.at("type")}' is missing`, scorer.source.place(scorer.path));
  }
  if (!SCORERS.includes(type)) {
    notices.push(`warning: ${scorer.path}: unknown scorer type '${shownValue(type)}' is skipped`);
    return null;
  }
  const lowered: Record<string, JsonValue> = { type, name: scorer.filled("name") ?? type };
  const bound = DEFAULT_MAX[type];
  if (bound !== undefined) lowered["max"] = scorer.integer("max") ?? bound;
  if (type === "tool_sequence") lowered["expected"] = scorer.texts("expected") ?? [];
  return lowered;
}

/** Reads the block. Scorers of unknown type are skipped with a notice. @throws {MurError} `E-MAN-002` for one without type. */
export function readObservability(root: BlockReader, notices: string[]): CapsuleManifest["observability"] {
  const block = root.child("observability");
  const otelEndpoint = block.filled("otel_endpoint");
  if (!block.present("eval")) return { otelEndpoint, evalConfig: null, datasetId: null };
  const evaluation = block.child("eval");
  const datasetId = evaluation.filled("dataset_id");
  const scorers = evaluation.children("scorers").map((scorer) => readScorer(scorer, notices))
    .filter((scorer) => scorer !== null);
  return {
    otelEndpoint,
    datasetId,
    evalConfig: datasetId === null ? { scorers } : { dataset_id: datasetId, scorers },
  };
}
