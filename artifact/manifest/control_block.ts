/**
 * `control:`, what a controller or the agent may change while the capsule runs (spec manifest 15).
 *
 * @module
 */
import { isScalar, isSeq } from "yaml";
import { findArtifact } from "./artifact_entries.ts";
import type { CapsuleManifest } from "./capsule_manifest.ts";
import { isCredentialName } from "./credential_reference.ts";
import type { InferenceReading } from "./inference_block.ts";
import type { Refusals } from "./manifest_error.ts";
import type { BlockReader } from "./manifest_reader.ts";
import { shownValue } from "./shown_value.ts";
import { scalarText, yamlType } from "./yaml_source.ts";

const SETTINGS = ["inference.max_tokens", "inference.driver"] as const;
const AGENT_SETTINGS = ["inference.driver"] as const;

function readList(control: BlockReader, key: string, refuse: Refusals): string[] {
  const node = control.judged(key);
  if (node === null) return [];
  const field = control.at(key);
  if (!isSeq(node)) throw refuse.config("control", field, `must be a list of strings, got ${yamlType(node)}`);
  const values: string[] = [];
  for (const [index, item] of control.source.items(node).entries()) {
    if (!isScalar(item) || typeof item.value !== "string") {
      throw refuse.config("control", field, `must be a list of strings, and entry ${index} is ${yamlType(item)}`);
    }
    const value = scalarText(item).trim();
    if (values.includes(value)) throw refuse.config("control", field, `'${shownValue(value)}' is listed twice`);
    values.push(value);
  }
  return values;
}

/** Reads the block; `null` when it allows nothing. @throws {MurError} `E-MAN-003`. */
export function readControl(
  root: BlockReader,
  { inference, artifacts }: InferenceReading,
  refuse: Refusals,
): CapsuleManifest["control"] {
  const block = root.child("control");
  const settings = readList(block, "settings", refuse);
  const secrets = readList(block, "secrets", refuse);
  const agentSettings = readList(block, "agent_settings", refuse);
  if (settings.length + secrets.length + agentSettings.length === 0) return null;
  if (inference === null) {
    throw refuse.config("control", "control", "a capsule without inference: has nothing to control");
  }
  for (
    const [key, values, accepted] of [
      ["settings", settings, SETTINGS],
      ["agent_settings", agentSettings, AGENT_SETTINGS],
    ] as const
  ) {
    const field = block.at(key);
    for (const value of values) {
      if (!accepted.some((each) => each === value)) {
        throw refuse.config(
          "control",
          field,
          `unknown entry '${shownValue(value)}' (accepted: ${accepted.join(", ")})`,
        );
      }
      if (inference.transport !== "http") throw refuse.config("control", field, `'${value}' needs transport: http`);
      if (value === "inference.driver" && inference.alternates.length === 0) {
        throw refuse.config("control", field, `'${value}' needs at least one entry in inference.alternates`);
      }
    }
  }
  const driver = inference.driver === null ? null : findArtifact(artifacts, inference.driver.artifact);
  for (const secret of secrets) {
    const field = block.at("secrets");
    if (!isCredentialName(secret)) {
      throw refuse.config(
        "control",
        field,
        `'${shownValue(secret)}' is not a credential name: capitals, digits and '_'`,
      );
    }
    const keyed = artifacts.filter(({ gateway }) =>
      gateway?.credential?.kind === "reference" && gateway.credential.name === secret
    );
    if (keyed.length === 0) {
      throw refuse.config("control", field, `'${secret}' is the gateway.api_key of no artifact`);
    }
    if (driver !== null && keyed.includes(driver)) {
      throw refuse.config(
        "control",
        field,
        `'${secret}' is the key of the primary driver '${driver.name}', which is needed at launch`,
      );
    }
  }
  return { settings, secrets, agentSettings };
}
