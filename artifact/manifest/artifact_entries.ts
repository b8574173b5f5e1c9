/**
 * `artifacts[]`: what a capsule is made of (spec manifest 8).
 *
 * @module
 */
import { isMap } from "yaml";
import { bareHalf, bareNameProblem, parseArtifactName } from "../artifact_name.ts";
import { readGrant } from "./capabilities_block.ts";
import type { ArtifactEntry, ArtifactRole, GatewayDeclaration } from "./capsule_manifest.ts";
import { parseCredential } from "./credential_reference.ts";
import { gatewayEndpointProblem, maskedEndpoint } from "./gateway_endpoint.ts";
import type { Refusals } from "./manifest_error.ts";
import type { BlockReader } from "./manifest_reader.ts";
import { shownValue } from "./shown_value.ts";
import { yamlToJsonText } from "./yaml_json.ts";
import { yamlType } from "./yaml_source.ts";

/** Largest `config:` as compact JSON, in bytes (spec manifest 8.4). */
export const MAX_CONFIG_BYTES = 65_536;

const ROLES: readonly ArtifactRole[] = ["tool", "driver", "hook", "skill"];

function readRole(entry: BlockReader, index: number, refuse: Refusals): ArtifactRole {
  const word = entry.text("runtime");
  if (word === null) return "tool";
  const role = ROLES.find((each) => each === word);
  if (role !== undefined) return role;
  if (word === "wasm" || word === "native") {
    throw refuse.artifact(
      index,
      `runtime '${word}' is no role`,
      "runtime",
      `write 'runtime: tool'; the artifact's own manifest says 'implementation: ${word}'`,
    );
  }
  throw refuse.artifact(
    index,
    `unknown runtime '${shownValue(word)}' (expected one of: ${ROLES.join(", ")})`,
    "runtime",
  );
}

/** Compact JSON of `config`, or why it is refused at staging. */
function readConfig(entry: BlockReader): Pick<ArtifactEntry, "configJson" | "configProblem"> {
  if (!entry.written("config")) return { configJson: null, configProblem: null };
  const node = entry.judged("config");
  const refused = (configProblem: string) => ({ configJson: null, configProblem });
  if (!isMap(node)) return refused(`expected a mapping, got ${yamlType(node)}`);
  const json = yamlToJsonText(entry.source, node);
  if ("problem" in json) return refused(json.problem);
  const size = new TextEncoder().encode(json.text).byteLength;
  if (size > MAX_CONFIG_BYTES) {
    return refused(`it is ${size} bytes as JSON, over the limit of ${MAX_CONFIG_BYTES} bytes`);
  }
  return { configJson: json.text, configProblem: null };
}

function readGateway(
  entry: BlockReader,
  name: string,
  role: ArtifactRole,
  index: number,
  refuse: Refusals,
  dropLiterals: boolean,
): GatewayDeclaration | null {
  if (!entry.written("gateway")) return null;
  if (role === "skill") throw refuse.artifact(index, "a skill sends nothing, so it takes no 'gateway'", "gateway");
  const gateway = entry.child("gateway");
  const endpoint = gateway.filled("endpoint")?.trim();
  if (endpoint === undefined) {
    throw refuse.artifact(index, `'${name}': gateway.endpoint is missing`, "gateway.endpoint");
  }
  const problem = gatewayEndpointProblem(endpoint);
  if (problem !== null) {
    const shown = shownValue(maskedEndpoint(endpoint));
    throw refuse.artifact(index, `'${name}': gateway.endpoint '${shown}' ${problem}`, "gateway.endpoint");
  }
  const keylessNode = gateway.judged("keyless");
  const keyless = keylessNode === null ? false : (keylessNode as { readonly value?: unknown }).value;
  if (typeof keyless !== "boolean") {
    throw refuse.artifact(
      index,
      `'${name}': gateway.keyless is ${yamlType(keylessNode)}, expected true or false`,
      "gateway.keyless",
    );
  }
  if (keyless && gateway.written("api_key")) {
    throw refuse.artifact(index, `'${name}': gateway declares both 'api_key' and 'keyless: true'`, "gateway.keyless");
  }
  const key = gateway.filled("api_key");
  if (!keyless && key === null) {
    throw refuse.coded(
      "E-CAP-018",
      `artifact '${name}' declares gateway.endpoint '${shownValue(endpoint)}' without a credential`,
      `${entry.path}.gateway`,
      "set gateway.api_key to ${NAME}, or declare 'keyless: true' when the upstream takes no key",
    );
  }
  const credential = key === null ? null : parseCredential(key);
  return {
    endpoint,
    credential: credential?.kind === "literal" && dropLiterals ? { kind: "literal", value: "" } : credential,
    olderForm: false,
  };
}

function readEntry(
  entry: BlockReader,
  index: number,
  refuse: Refusals,
  notices: string[],
  dropLiterals: boolean,
): ArtifactEntry {
  const name = entry.filled("name");
  if (name === null) throw refuse.artifact(index, "missing required field 'name'", "name");
  if (parseArtifactName(name) === null) {
    const reason = name.includes("/") ? "it is not <scope>/<name>" : bareNameProblem(name);
    throw refuse.artifact(index, `invalid name '${shownValue(name)}': ${reason}`, "name");
  }
  const role = readRole(entry, index, refuse);

  const source = entry.filled("source");
  if (source !== null && !(entry.boolean("local_source") ?? role === "skill")) {
    throw refuse.artifact(
      index,
      `artifact '${name}' declares 'source:' but does not declare 'local_source: true' (runtime: ${role})`,
      "source",
    );
  }
  const version = entry.filled("version");
  if (source === null && version === null) {
    throw refuse.artifact(index, `'${name}': missing required field 'version'`, "version");
  }
  if (source !== null && version !== null) {
    notices.push(`warning: artifact '${name}' has a local source, so its 'version: ${shownValue(version)}' is ignored`);
  }

  const grant = entry.present("capabilities") ? readGrant(entry.child("capabilities"), role, index, refuse) : null;

  const onOverflow = entry.text("on_overflow");
  if (onOverflow !== null) {
    if (role !== "hook") throw refuse.artifact(index, "'on_overflow' is only for a hook", "on_overflow");
    if (onOverflow !== "drop" && onOverflow !== "block") {
      throw refuse.artifact(
        index,
        `unknown on_overflow '${shownValue(onOverflow)}' (expected one of: drop, block)`,
        "on_overflow",
      );
    }
  }
  if (role === "skill" && entry.written("config")) {
    throw refuse.artifact(index, "a skill runs nothing, so it takes no 'config'", "config");
  }
  const gateway = readGateway(entry, name, role, index, refuse, dropLiterals);
  return {
    name,
    bareName: bareHalf(name),
    version: source === null ? version! : "local",
    role,
    source,
    promptPayload: entry.boolean("prompt_payload") ?? role === "skill",
    grant,
    ...readConfig(entry),
    gateway,
    onOverflow: onOverflow === "block" ? "block" : "drop",
    place: entry.source.place(`${entry.path}.name`) ?? entry.source.placeAt(0),
  };
}

/** Reads every entry in order, then refuses two with one bare name (spec manifest 19, rule 3). */
export function readArtifacts(
  root: BlockReader,
  refuse: Refusals,
  notices: string[],
  dropLiterals: boolean,
): ArtifactEntry[] {
  const entries = root.children("artifacts").map((entry, index) =>
    readEntry(entry, index, refuse, notices, dropLiterals)
  );
  const seen = new Map<string, string>();
  entries.forEach((entry, index) => {
    const twin = seen.get(entry.bareName);
    if (twin !== undefined) {
      const reason = twin === entry.name
        ? `'${twin}' is declared twice`
        : `'${entry.name}' and '${twin}' have the same bare name`;
      throw refuse.artifact(index, reason, "name");
    }
    seen.set(entry.bareName, entry.name);
  });
  return entries;
}

/**
 * The entry a reference inside the manifest means: equal to its `name`, or, written bare, of that bare half (spec
 * manifest 3.1). `null` when there is none.
 */
export function findArtifact(artifacts: readonly ArtifactEntry[], reference: string): ArtifactEntry | null {
  return artifacts.find((entry) => entry.name === reference) ??
    (reference.includes("/") ? null : artifacts.find((entry) => entry.bareName === reference) ?? null);
}
