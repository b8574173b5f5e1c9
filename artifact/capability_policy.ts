/**
 * Capabilities, judged and lowered once at staging (spec manifest 9.13, session 3.1). Every judgement is a pure function
 * of the manifest, callable alone; {@linkcode judgeCapabilities} runs them in the one order.
 *
 * @module
 */
import { MurError, type SourcePlace } from "../base/errors.ts";
import { strippedBy } from "./environment_patterns.ts";
import type {
  ArtifactEntry,
  CapabilityPolicy,
  CapsuleManifest,
  ContainmentClass,
} from "./manifest/capsule_manifest.ts";
import { shownValue } from "./manifest/shown_value.ts";
import { type NetworkRule, networkRuleCovers, parseNetworkRule } from "./network_rules.ts";
import { storeNameProblem } from "./store_name.ts";
import { normalWorkdirPath, workdirPathProblem } from "./workdir_path.ts";

/** Tools the runtime provides; no artifact may be named like one (spec manifest 8.1). */
export const RUNTIME_TOOL_NAMES: readonly string[] = [
  "share-file",
  "fetch-peer-file",
  "delegate-task",
  "submit-plan",
  "switch-driver",
  "call-member",
  "end-without-answer",
];

/** Longest life of a peer handle on a capsule that sleeps, in seconds. */
export const MAX_SLEEPING_TTL_SECONDS = 15 * 60;

/** What staging knows besides the manifest. */
export interface JudgementOptions {
  /** `after_task` with flags applied; default: the manifest's. */
  readonly afterTask?: "exit" | "sleep";
  /** `--context`; `null` without one. */
  readonly contextId?: string | null;
}

function at(place: SourcePlace | undefined, hint?: string): { place?: SourcePlace; hint?: string } {
  return { ...(place === undefined ? {} : { place }), ...(hint === undefined ? {} : { hint }) };
}

/** Parses one entry and adds its place to a refusal. */
function ruleAt(entry: string, place: SourcePlace | undefined): NetworkRule {
  try {
    return parseNetworkRule(entry);
  } catch (error) {
    if (error instanceof MurError) throw new MurError(error.code, error.message, at(place, error.hint));
    throw error;
  }
}

/** Check 1: every `network.allow` entry parses, capsule-wide and on artifact entries. @throws {MurError} `E-CAP-001`. */
export function judgeNetworkEntries(manifest: CapsuleManifest): void {
  manifest.capabilities.networkAllow.forEach((entry, index) =>
    ruleAt(entry, manifest.place(`capabilities.network.allow[${index}]`))
  );
  manifest.artifacts.forEach((artifact, position) =>
    artifact.grant?.networkAllow?.forEach((entry, index) =>
      ruleAt(entry, manifest.place(`artifacts[${position}].capabilities.network.allow[${index}]`))
    )
  );
}

/** Check 2: every `filesystem.scope` lies in the work folder. @throws {MurError} `E-CAP-002`. */
export function judgeScopes(manifest: CapsuleManifest): void {
  const judge = (scope: string | null, path: string): void => {
    const problem = scope === null ? null : workdirPathProblem(scope);
    if (problem === null) return;
    const reason = problem === "absolute"
      ? "scope must be relative to the workdir"
      : "scope cannot escape the workdir via '..'";
    throw new MurError(
      "E-CAP-002",
      `invalid filesystem scope '${shownValue(scope!)}': ${reason}`,
      at(manifest.place(path), "'.' is the whole work folder"),
    );
  };
  judge(manifest.capabilities.scope, "capabilities.filesystem.scope");
  manifest.artifacts.forEach((artifact, index) =>
    judge(artifact.grant?.scope ?? null, `artifacts[${index}].capabilities.filesystem.scope`)
  );
}

/** Check 3: `filesystem.read_only` entries lie in the work folder. @throws {MurError} `E-CAP-012`. */
export function judgeReadOnlyPaths(manifest: CapsuleManifest): void {
  for (const path of manifest.capabilities.readOnly) {
    const problem = workdirPathProblem(path);
    if (problem === null) continue;
    const reason = problem === "absolute"
      ? "read-only path must be relative to the workdir"
      : "read-only path cannot escape the workdir via '..'";
    throw new MurError(
      "E-CAP-012",
      `invalid read-only path '${shownValue(path)}': ${reason}`,
      at(placeOfText(manifest, "capabilities.filesystem.read_only", path)),
    );
  }
}

/** Where a list holds an entry: blank entries were dropped, so positions are not the manifest's. */
function placeOfText(manifest: CapsuleManifest, list: string, text: string): SourcePlace | undefined {
  for (let index = 0;; index++) {
    const place = manifest.place(`${list}[${index}]`);
    if (place === undefined) return manifest.place(list);
    if (place.text.includes(text)) return place;
  }
}

/** The state store an artifact opens, `null` when it has none (spec manifest 8.6, 9.9). */
export function artifactStateStore(entry: ArtifactEntry, capsuleName: string): string | null {
  const state = entry.grant?.state ?? null;
  return state === null ? null : state.store ?? capsuleName;
}

/** Check 4: state store names are one path segment. @throws {MurError} `E-CAP-009`. */
export function judgeStateStores(manifest: CapsuleManifest): void {
  manifest.artifacts.forEach((artifact, index) => {
    const store = artifactStateStore(artifact, manifest.name);
    const problem = store === null ? null : storeNameProblem(store);
    if (problem === null) return;
    const path = `artifacts[${index}].capabilities.state`;
    throw new MurError(
      "E-CAP-009",
      `invalid state store '${shownValue(store!)}' of artifact '${artifact.name}': ${problem}`,
      at(
        manifest.place(`${path}.store`) ?? manifest.place(path),
        "a store name is one path segment that does not start with '.'",
      ),
    );
  });
}

/** Check 5: each `artifacts[].config` is a mapping with a JSON form of bounded size. @throws {MurError} `E-CAP-010`. */
export function judgeArtifactConfigs(manifest: CapsuleManifest): void {
  manifest.artifacts.forEach((artifact, index) => {
    if (artifact.configProblem === null) return;
    throw new MurError(
      "E-CAP-010",
      `invalid config of artifact '${artifact.name}': ${artifact.configProblem}`,
      at(manifest.place(`artifacts[${index}].config`), "write a mapping with string keys, or leave config: out"),
    );
  });
}

/** The name conversations are kept under; `null` when none are (spec manifest 12). */
export function recordStoreName(manifest: CapsuleManifest): string | null {
  if (manifest.inference === null || !manifest.context.record) return null;
  return manifest.context.recordStore ?? manifest.name;
}

/**
 * Check 6, for the record store and for a `--context`: one path segment.
 *
 * @param what What the name is, for the message.
 * @throws {MurError} `E-CAP-011`.
 */
export function judgeRecordName(name: string, what: string, place?: SourcePlace): void {
  const problem = storeNameProblem(name);
  if (problem === null) return;
  throw new MurError(
    "E-CAP-011",
    `invalid ${what} '${shownValue(name)}': ${problem}`,
    at(place, "it is one path segment that does not start with '.'"),
  );
}

/** Check 7: no artifact has the name of a runtime-provided tool. @throws {MurError} `E-CAP-013`. */
export function judgeReservedNames(manifest: CapsuleManifest): void {
  for (const artifact of manifest.artifacts) {
    if (!RUNTIME_TOOL_NAMES.includes(artifact.bareName)) continue;
    throw new MurError(
      "E-CAP-013",
      `artifact '${artifact.name}' has the name of a tool the runtime provides: '${artifact.bareName}'`,
      at(artifact.place, "rename the artifact"),
    );
  }
}

/** Check 8: no `env.allow` name is one the backstop strips. @throws {MurError} `E-CAP-016`. */
export function judgeEnvironmentNames(manifest: CapsuleManifest): void {
  const { envAllow, stripEnv } = manifest.capabilities;
  const found: string[] = [];
  let place: SourcePlace | undefined;
  const seen = new Set<string>();
  envAllow.forEach((name, index) => {
    if (seen.has(name)) return;
    seen.add(name);
    const stripped = strippedBy(name, stripEnv);
    if (stripped === null) return;
    place ??= manifest.place(`capabilities.env.allow[${index}]`);
    found.push(`'${shownValue(name)}' (matches '${shownValue(stripped.pattern)}' of the ${stripped.source})`);
  });
  if (found.length === 0) return;
  throw new MurError(
    "E-CAP-016",
    `capabilities.env.allow names what never reaches a component: ${found.join(", ")}`,
    at(place, "remove it; a key for an upstream goes into gateway.api_key of the artifact that needs it"),
  );
}

/** Check 9: `exports.peer_files` on a capsule that sleeps has a short `max_ttl`. @throws {MurError} `E-CAP-008`. */
export function judgePeerFileLife(manifest: CapsuleManifest, options: JudgementOptions = {}): void {
  const { peerFiles } = manifest.exports;
  if (peerFiles === null || (options.afterTask ?? manifest.lifecycle.afterTask) !== "sleep") return;
  if (peerFiles.maxTtlSeconds !== null && peerFiles.maxTtlSeconds <= MAX_SLEEPING_TTL_SECONDS) return;
  const reason = peerFiles.maxTtlSeconds === null
    ? "declares no max_ttl"
    : `has a max_ttl of ${peerFiles.maxTtlSeconds} seconds, above 15m`;
  throw new MurError(
    "E-CAP-008",
    `exports.peer_files ${reason}, and a capsule with after_task: sleep lives on`,
    at(
      manifest.place("exports.peer_files.max_ttl") ?? manifest.place("exports.peer_files"),
      "declare exports.peer_files.max_ttl of at most 15m",
    ),
  );
}

/** Runs checks 1 to 9 of spec session 3.1 in their order. @throws {MurError} `E-CAP-…`. */
export function judgeCapabilities(manifest: CapsuleManifest, options: JudgementOptions = {}): void {
  judgeNetworkEntries(manifest);
  judgeScopes(manifest);
  judgeReadOnlyPaths(manifest);
  judgeStateStores(manifest);
  judgeArtifactConfigs(manifest);
  const store = recordStoreName(manifest);
  if (store !== null) {
    judgeRecordName(store, "record store", manifest.place("context.record_store") ?? manifest.place("name"));
  }
  const { contextId = null } = options;
  if (contextId !== null) judgeRecordName(contextId, "context id for --context");
  judgeReservedNames(manifest);
  judgeEnvironmentNames(manifest);
  judgePeerFileLife(manifest, options);
}

/** Check 12: `shell.staged_runtime` needs a sealed floor to be staged into. @throws {MurError} `E-CAP-004`. */
export function judgeStagedRuntime(manifest: CapsuleManifest, floor: ContainmentClass): void {
  const { stagedRuntime } = manifest.capabilities;
  if (stagedRuntime.length === 0 || floor === "sealed") return;
  const binaries = stagedRuntime.map(({ binary }) => `'${shownValue(binary)}'`).join(", ");
  throw new MurError(
    "E-CAP-004",
    `capabilities.shell.staged_runtime is declared for ${binaries} under the containment floor '${floor}': only a sealed ` +
      "root takes one",
    at(
      manifest.place("capabilities.shell.staged_runtime"),
      "declare capabilities.containment: sealed, or remove staged_runtime",
    ),
  );
}

/** The checks that `--explain-scope` refuses on too: 4, 5, 7 and 8. @throws {MurError} `E-CAP-…`. */
export function judgeForScopeReport(manifest: CapsuleManifest): void {
  judgeStateStores(manifest);
  judgeArtifactConfigs(manifest);
  judgeReservedNames(manifest);
  judgeEnvironmentNames(manifest);
}

/** Parses the allow lists, once for the whole session. @throws {MurError} `E-CAP-001`. */
export function lowerCapabilities(manifest: CapsuleManifest): CapabilityPolicy {
  const { capabilities } = manifest;
  return Object.freeze({
    network: Object.freeze(
      capabilities.networkAllow.map((entry, index) =>
        ruleAt(entry, manifest.place(`capabilities.network.allow[${index}]`))
      ),
    ),
    peerFetch: Object.freeze(
      (capabilities.peerFetch ?? []).map((entry, index) =>
        ruleAt(entry, manifest.place(`capabilities.peer_fetch.allow[${index}]`))
      ),
    ),
    capabilities,
  });
}

/** Network rules of one artifact and the entries that were dropped (`W-SEC-007`). */
export interface ArtifactNetwork {
  readonly rules: readonly NetworkRule[];
  /** Entries no ceiling rule covers, as written. Always empty for a hook. */
  readonly dropped: readonly string[];
}

/**
 * The rule list of an artifact's own requests (spec components 3.6): a hook has its own list and nothing else, a tool or
 * driver what its list and the ceiling share, or the ceiling when it has no list.
 *
 * @throws {MurError} `E-CAP-001` for an entry that does not parse.
 */
export function artifactNetworkRules(entry: ArtifactEntry, policy: CapabilityPolicy): ArtifactNetwork {
  const written = entry.grant?.networkAllow ?? null;
  if (written === null) return { rules: entry.role === "hook" ? [] : policy.network, dropped: [] };
  const rules = written.map((text) => ruleAt(text, entry.place));
  if (entry.role === "hook") return { rules, dropped: [] };
  const covered = (rule: NetworkRule) => policy.network.some((ceiling) => networkRuleCovers(ceiling, rule));
  return {
    rules: rules.filter(covered),
    dropped: rules.filter((rule) => !covered(rule)).map((rule) => rule.entry),
  };
}

/** What an artifact gets as `.` (spec containment 16.2). */
export interface ArtifactPreopen {
  readonly surface: "whole-workdir" | "scoped-subtree" | "records" | "nothing";
  /** As written; `null` without one. */
  readonly scope: string | null;
  /** The folder below the accessible work folder, normal form; `null` unless the surface is a folder of it. */
  readonly folder: string | null;
}

/** The directory an artifact's component gets as `.`; the capsule-wide scope does not move it (spec manifest 9.13). */
export function artifactPreopen(entry: ArtifactEntry): ArtifactPreopen {
  const scope = entry.grant?.scope ?? null;
  if (entry.role === "skill") return { surface: "nothing", scope: null, folder: null };
  if (scope !== null) return { surface: "scoped-subtree", scope, folder: normalWorkdirPath(scope) };
  if (entry.role !== "hook") return { surface: "whole-workdir", scope: null, folder: "." };
  return { surface: entry.grant?.records === true ? "records" : "nothing", scope: null, folder: null };
}
