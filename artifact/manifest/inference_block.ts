/**
 * `inference:` and what it says about `artifacts[]`: drivers, their gateways, alternates, the system prompt, and the older
 * spellings (spec manifest 11, 19 rules 6 and 7).
 *
 * @module
 */
import { isMap } from "yaml";
import { findArtifact, MAX_CONFIG_BYTES } from "./artifact_entries.ts";
import type { ArtifactEntry, DriverChoice, Inference } from "./capsule_manifest.ts";
import { parseCredential } from "./credential_reference.ts";
import { gatewayEndpointProblem, maskedEndpoint } from "./gateway_endpoint.ts";
import type { Refusals } from "./manifest_error.ts";
import type { BlockReader } from "./manifest_reader.ts";
import { shownValue } from "./shown_value.ts";
import { yamlToJsonText } from "./yaml_json.ts";

/** What the block gives: itself, and the entries with an older gateway lowered onto the driver's. */
export interface InferenceReading {
  readonly inference: Inference | null;
  readonly artifacts: readonly ArtifactEntry[];
}

const NOT_WITH_PROCESS = "is not valid with transport: process";

function positive(reader: BlockReader, key: string, refuse: Refusals): number | null {
  const value = reader.integer(key);
  if (value === 0) throw refuse.config("inference", reader.at(key), "must be greater than 0");
  return value;
}

function readCompaction(inference: BlockReader, refuse: Refusals): Inference["compaction"] {
  const block = inference.child("compaction");
  const threshold = block.float("threshold") ?? 0.98;
  if (!(threshold > 0 && threshold <= 1)) {
    throw refuse.config("inference", block.at("threshold"), "must be greater than 0.0 and at most 1.0");
  }
  const systemPrompt = block.text("system_prompt");
  const systemPromptFile = block.filled("system_prompt_file");
  if (systemPrompt !== null && systemPromptFile !== null) {
    throw refuse.config(
      "inference",
      block.at("system_prompt"),
      "stands beside system_prompt_file; declare one of them",
    );
  }
  return {
    threshold,
    model: block.filled("model"),
    systemPrompt,
    systemPromptFile,
    dumpSummaries: block.boolean("dump_summaries") ?? false,
  };
}

function readDriver(inference: BlockReader, refuse: Refusals): DriverChoice | null {
  const driver = inference.child(inference.present("driver") ? "driver" : "provider");
  const artifact = driver.filled("artifact");
  const config = driver.judged("config");
  let configJson: string | null = null;
  if (config !== null) {
    if (!isMap(config)) throw refuse.config("inference", driver.at("config"), "expected mapping/object");
    const json = yamlToJsonText(inference.source, config);
    if ("problem" in json) throw refuse.config("inference", driver.at("config"), json.problem);
    const size = new TextEncoder().encode(json.text).byteLength;
    // One environment variable of the driver holds it.
    if (size > MAX_CONFIG_BYTES) {
      throw refuse.config(
        "inference",
        driver.at("config"),
        `is ${size} bytes as JSON, over the limit of ${MAX_CONFIG_BYTES} bytes`,
      );
    }
    configJson = json.text;
  }
  return artifact === null ? null : { artifact, configJson };
}

function readAlternates(
  inference: BlockReader,
  model: string | null,
  driver: DriverChoice | null,
  artifacts: readonly ArtifactEntry[],
  refuse: Refusals,
): Inference["alternates"] {
  // One artifact can be referred to by its full and by its bare name.
  const pairOf = (reference: string, named: string): string =>
    JSON.stringify([findArtifact(artifacts, reference)?.name ?? reference, named]);
  const pairs = new Set(driver === null || model === null ? [] : [pairOf(driver.artifact, model)]);
  const names = new Set<string>();
  return inference.children("alternates").map((choice) => {
    const refusal = (key: string, reason: string) => refuse.config("inference", choice.at(key), reason);
    const name = choice.filled("name");
    if (name === null) throw refusal("name", "missing required field");
    if (name === "primary") throw refusal("name", "'primary' is the name of the first choice");
    if (!/^[a-z][a-z0-9-]{0,62}$/.test(name)) {
      throw refusal(
        "name",
        `'${shownValue(name)}' is not a name: a letter, then letters, digits and '-', at most 63 in all`,
      );
    }
    if (names.has(name)) throw refusal("name", `'${name}' is declared twice`);
    names.add(name);
    const own = choice.filled("model");
    if (own === null) throw refusal("model", "missing required field");
    const block = choice.child("driver");
    const artifact = block.filled("artifact");
    if (artifact === null) throw refusal("driver.artifact", "missing required field");
    if (block.judged("config") !== null) {
      throw refusal("driver.config", "must be absent; the driver's settings are those of inference.driver.config");
    }
    const pair = pairOf(artifact, own);
    if (pairs.has(pair)) {
      throw refuse.config("inference", choice.path, "the same driver and model are already a choice");
    }
    pairs.add(pair);
    return { name, model: own, artifact };
  });
}

/** Older `inference.endpoint` and `inference.api_key` (spec manifest 11.6); returns the entries with what they lower to. */
function lowerOlderGateway(
  inference: BlockReader,
  transport: Inference["transport"],
  driver: DriverChoice | null,
  artifacts: readonly ArtifactEntry[],
  refuse: Refusals,
  notices: string[],
  dropLiterals: boolean,
): readonly ArtifactEntry[] {
  const endpoint = inference.filled("endpoint")?.trim() ?? null;
  const apiKey = inference.filled("api_key");
  if (endpoint === null && apiKey === null) return artifacts;
  if (transport === "process") {
    const field = endpoint === null ? "api_key" : "endpoint";
    throw refuse.config("inference", inference.at(field), NOT_WITH_PROCESS);
  }
  const entry = driver === null ? null : findArtifact(artifacts, driver.artifact);
  if (entry !== null && entry.gateway !== null) {
    const field = endpoint === null ? "api_key" : "endpoint";
    throw refuse.config(
      "inference",
      inference.at(field),
      `was removed; set gateway.${field} on the artifacts: entry '${entry.name}' instead`,
    );
  }
  if (endpoint === null) throw refuse.config("inference", inference.at("endpoint"), "missing required field");
  const problem = gatewayEndpointProblem(endpoint);
  if (problem !== null) {
    throw refuse.config("inference", inference.at("endpoint"), `'${shownValue(maskedEndpoint(endpoint))}' ${problem}`);
  }
  notices.push(
    `note: inference.endpoint${
      apiKey === null ? " is" : " and inference.api_key are"
    } an older spelling; write gateway: ` +
      `on the driver's artifacts: entry${entry === null ? "" : ` '${entry.name}'`} instead`,
  );
  const credential = apiKey === null ? null : parseCredential(apiKey);
  const gateway = {
    endpoint,
    credential: credential?.kind === "literal" && dropLiterals ? { kind: "literal" as const, value: "" } : credential,
    olderForm: true,
  };
  return artifacts.map((each) => each === entry ? { ...each, gateway } : each);
}

/** Reads the block itself. @throws {MurError} `E-MAN-003`. */
export function readInference(
  root: BlockReader,
  declared: readonly ArtifactEntry[],
  refuse: Refusals,
  notices: string[],
  dropLiterals: boolean,
): InferenceReading {
  if (!root.present("inference")) return { inference: null, artifacts: declared };
  const block = root.child("inference");
  const compaction = readCompaction(block, refuse);

  const systemPrompt = block.filled("system_prompt")?.trim() ?? null;
  const systemPromptFile = block.filled("system_prompt_file");
  const systemPromptArtifact = block.filled("system_prompt_artifact");
  const sources = [systemPrompt, systemPromptFile, systemPromptArtifact].filter((each) => each !== null);
  if (sources.length > 1) {
    throw refuse.config(
      "inference",
      block.at("system_prompt"),
      "declare only one of system_prompt, system_prompt_file and system_prompt_artifact",
    );
  }
  const maxTurns = positive(block, "max_turns", refuse) ?? 10;

  const word = block.filled("transport")?.trim() ?? "http";
  if (word !== "http" && word !== "process") {
    throw refuse.config("inference", block.at("transport"), `unknown value '${shownValue(word)}'`);
  }
  const transport = word;
  if (block.present("provider")) {
    notices.push(
      block.present("driver")
        ? "note: inference.provider is ignored beside inference.driver"
        : "note: inference.provider is an older spelling; write inference.driver instead",
    );
  }
  if (block.present("max_task_reopens")) {
    if (root.child("lifecycle").present("max_task_reopens")) {
      throw refuse.config(
        "inference",
        block.at("max_task_reopens"),
        "is an older spelling of lifecycle.max_task_reopens, which is also declared; remove it",
      );
    }
    notices.push("note: inference.max_task_reopens is an older spelling; write lifecycle.max_task_reopens instead");
  }
  const driver = readDriver(block, refuse);
  const artifacts = lowerOlderGateway(block, transport, driver, declared, refuse, notices, dropLiterals);

  const model = block.filled("model");
  if (transport === "http" && model === null) {
    throw refuse.config("inference", block.at("model"), "missing required field");
  }
  const maxTokens = positive(block, "max_tokens", refuse);
  if (transport === "process" && maxTokens !== null) {
    throw refuse.config("inference", block.at("max_tokens"), NOT_WITH_PROCESS);
  }
  const maxSessionTokens = positive(block, "max_session_tokens", refuse);
  const refresh = block.text("tool_refresh");
  if (refresh !== null) {
    if (refresh !== "compaction" && refresh !== "immediate") {
      throw refuse.config(
        "inference",
        block.at("tool_refresh"),
        `must be one of: compaction, immediate; got '${shownValue(refresh)}'`,
      );
    }
    if (transport === "process") throw refuse.config("inference", block.at("tool_refresh"), NOT_WITH_PROCESS);
  }
  const alternates = readAlternates(block, model, driver, artifacts, refuse);
  if (transport === "process" && alternates.length > 0) {
    throw refuse.config("inference", block.at("alternates"), NOT_WITH_PROCESS);
  }
  return {
    artifacts,
    inference: {
      transport,
      model,
      driver,
      command: block.filled("command"),
      maxTurns,
      maxTokens,
      maxSessionTokens,
      toolRefresh: refresh === "immediate" ? "immediate" : "compaction",
      systemPrompt,
      systemPromptFile,
      systemPromptArtifact,
      alternates,
      compaction,
    },
  };
}

/** Judges driver entries against the block that names them (spec manifest 8.5, 11.2 to 11.4, 19 rule 7). */
export function judgeDrivers(
  root: BlockReader,
  { inference, artifacts }: InferenceReading,
  refuse: Refusals,
): void {
  const http = inference?.transport === "http";
  const driverPath = root.child("inference").present("driver")
    ? "inference.driver.artifact"
    : "inference.provider.artifact";
  const driver = inference?.driver ?? null;
  const primary = driver === null ? null : findArtifact(artifacts, driver.artifact);

  /** The driver entry a reference means. */
  const driverEntry = (field: string, reference: string): ArtifactEntry => {
    const entry = findArtifact(artifacts, reference);
    if (entry === null) {
      throw refuse.config("inference", field, `'${shownValue(reference)}' is not declared in artifacts:`);
    }
    if (entry.role !== "driver") {
      throw refuse.config(
        "inference",
        field,
        `'${entry.name}' is declared with runtime: ${entry.role}, and a driver is needed`,
        "write 'runtime: driver' on its artifacts: entry",
      );
    }
    return entry;
  };

  if (http && driver !== null) {
    const older = root.child("inference").filled("endpoint") !== null;
    // The older form's driver may come from elsewhere; staging finds it missing (`E-RUN-006`).
    if (!(older && primary === null)) {
      const entry = driverEntry(driverPath, driver.artifact);
      if (entry.gateway === null) {
        throw refuse.config(
          "inference",
          driverPath,
          `the artifacts: entry '${entry.name}' has no gateway`,
          "declare gateway: { endpoint: …, api_key: ${NAME} } on it",
        );
      }
    }
  }
  const used = new Set<ArtifactEntry | null>(http ? [primary] : []);
  if (http) { for (const choice of inference.alternates) used.add(findArtifact(artifacts, choice.artifact)); }
  artifacts.forEach((entry, index) => {
    if (entry.role !== "driver" || entry.gateway === null || used.has(entry)) return;
    const why = inference?.transport === "process"
      ? "a process driver holds no credential"
      : "it is neither inference.driver nor the driver of an alternate";
    throw refuse.artifact(index, `driver '${entry.name}' declares gateway, but ${why}`, "gateway");
  });

  inference?.alternates.forEach((choice, index) => {
    const field = `inference.alternates[${index}].driver.artifact`;
    const entry = driverEntry(field, choice.artifact);
    if (entry !== primary && entry.gateway === null) {
      throw refuse.config("inference", field, `the artifacts: entry '${entry.name}' has no gateway`);
    }
  });

  if (inference?.transport === "process" && driver !== null) {
    const entry = driverEntry(driverPath, driver.artifact);
    const index = artifacts.indexOf(entry);
    for (
      const [key, declared] of [
        ["capabilities", entry.grant !== null],
        ["config", entry.configJson !== null || entry.configProblem !== null],
      ] as const
    ) {
      if (!declared) continue;
      throw refuse.artifact(
        index,
        `process driver '${entry.name}' declares '${key}', and a process driver is granted nothing`,
        key,
        "its settings go in inference.driver.config",
      );
    }
  }

  const prompt = inference?.systemPromptArtifact ?? null;
  if (prompt !== null) {
    const entry = findArtifact(artifacts, prompt);
    const field = "inference.system_prompt_artifact";
    if (entry === null) {
      throw refuse.config("inference", field, `'${shownValue(prompt)}' is not declared in artifacts:`);
    }
    if (!entry.promptPayload) {
      throw refuse.config(
        "inference",
        field,
        `'${entry.name}' is no prompt payload`,
        "write 'prompt_payload: true' on its artifacts: entry",
      );
    }
  }
}
