/**
 * `network:`, the capsule's own door: port, credentials, further names and origins (spec manifest 10).
 *
 * @module
 */
import { isScalar, isSeq } from "yaml";
import { readNetworkRule } from "../network_rules.ts";
import type { Capabilities, CapsuleManifest } from "./capsule_manifest.ts";
import { DOOR_SCOPES, parseDoorScope } from "./door_scopes.ts";
import type { Refusals } from "./manifest_error.ts";
import type { BlockReader } from "./manifest_reader.ts";
import { shownValue } from "./shown_value.ts";
import { scalarText } from "./yaml_source.ts";

function readScopes(credential: BlockReader, refuse: Refusals): readonly string[] {
  const field = credential.at("scopes");
  const node = credential.judged("scopes");
  if (!isSeq(node) || node.items.length === 0) {
    throw refuse.config("network", field, "must be a list of at least one door scope");
  }
  const scopes: string[] = [];
  for (const [index, item] of credential.source.items(node).entries()) {
    if (!isScalar(item) || typeof item.value !== "string") {
      throw refuse.config("network", `${field}[${index}]`, "must be the name of a door scope");
    }
    const scope = parseDoorScope(scalarText(item));
    if (scope === null) {
      throw refuse.config(
        "network",
        `${field}[${index}]`,
        `unknown scope '${shownValue(scalarText(item))}'`,
        `the scopes are ${DOOR_SCOPES.join(", ")}`,
      );
    }
    if (scopes.includes(scope)) throw refuse.config("network", `${field}[${index}]`, `'${scope}' is listed twice`);
    scopes.push(scope);
  }
  return scopes;
}

function readAuthentication(network: BlockReader, refuse: Refusals): CapsuleManifest["network"]["authentication"] {
  if (!network.present("authentication")) return null;
  const block = network.child("authentication");
  const scheme = block.text("scheme");
  if (scheme !== "bearer") {
    const reason = scheme === null ? "missing required field" : `unknown scheme '${shownValue(scheme)}'`;
    throw refuse.config("network", block.at("scheme"), `${reason}; must be one of: bearer`);
  }
  const credentials = new Map<string, readonly string[]>();
  for (const [name, credential] of block.named("credentials")) {
    if (name === "operator") {
      throw refuse.config(
        "network",
        credential.path,
        "'operator' is reserved: that token always exists and holds every scope",
      );
    }
    if (!/^[a-z][a-z0-9_-]{0,31}$/.test(name)) {
      throw refuse.config(
        "network",
        credential.path,
        `'${shownValue(name)}' is not a name: a letter, then letters, digits, '_' and '-', at most 32 in all`,
      );
    }
    credentials.set(name, readScopes(credential, refuse));
  }
  return { credentials };
}

/** A host name without port, scheme or wildcard, in the form a `Host` header is compared in. */
function readHost(text: string): string | null {
  const rule = readNetworkRule(text);
  return !("problem" in rule) && rule.scheme === null && rule.port === null ? rule.host : null;
}

/** A web origin in its serialized form, or `null`: `http(s)://host[:port]` and nothing behind. */
function readOrigin(text: string): string | null {
  if (text.endsWith("/")) return null;
  const rule = readNetworkRule(text);
  if ("problem" in rule || rule.scheme === null) return null;
  return new URL(`${rule.scheme}://${rule.host}:${rule.port}`).origin;
}

/** Reads the block (spec manifest 10, 19 rule 8). @throws {MurError} `E-MAN-003`. */
export function readDoor(
  root: BlockReader,
  capabilities: Capabilities,
  refuse: Refusals,
): CapsuleManifest["network"] {
  const network = root.child("network");
  const authentication = readAuthentication(network, refuse);
  const hosts = (network.texts("hosts") ?? []).map((text, index) => {
    const host = readHost(text);
    if (host !== null) return host;
    throw refuse.config(
      "network",
      `${network.at("hosts")}[${index}]`,
      `'${shownValue(text)}' is not a host name without scheme, port and wildcard`,
    );
  });
  const origins = (network.texts("origins") ?? []).map((text, index) => {
    const origin = readOrigin(text);
    if (origin !== null) return origin;
    throw refuse.config(
      "network",
      `${network.at("origins")}[${index}]`,
      `'${shownValue(text)}' is not an origin: http(s)://host[:port] and nothing behind it`,
    );
  });
  const a2aCompat: ("v0.3" | "rest")[] = [];
  for (const [index, word] of (network.texts("a2a_compat") ?? []).entries()) {
    const field = `${network.at("a2a_compat")}[${index}]`;
    if (word !== "v0.3" && word !== "rest") {
      throw refuse.config("network", field, `must be one of: v0.3, rest; got '${shownValue(word)}'`);
    }
    if (a2aCompat.includes(word)) throw refuse.config("network", field, `'${word}' is listed twice`);
    a2aCompat.push(word);
  }
  if (authentication !== null && capabilities.spawnAllow.length > 0) {
    throw refuse.config(
      "network",
      "network.authentication",
      "cannot stand beside capabilities.spawn.allow: a child's completion could not pass the door",
    );
  }
  return { internalPort: network.integer("internal_port"), authentication, hosts, origins, a2aCompat };
}
