/**
 * The effective grants of a capsule on this host: what `mur run --explain-scope` answers and `session_start` carries
 * (spec containment 16.2, trace 5.2). Pure.
 *
 * @module
 */
import { DEFAULT_PEER_TTL_SECONDS } from "../../artifact/manifest/exports_block.ts";
import type { JsonObject, JsonValue } from "../../base/json_value.ts";
import type { ArtifactEntry, CapsuleManifest, ContainmentClass } from "../../artifact/manifest/capsule_manifest.ts";
import { type ContainmentDecision, TIER_NAMES } from "../../sandbox/containment_class.ts";
import type { SnapshotReport } from "../delegation/snapshot_report.ts";
import type { ContainmentJudgement } from "./containment_judgement.ts";

/** What the launch adds to the manifest. */
export interface ScopeFacts {
  readonly judgement: ContainmentJudgement;
  /** `~/.murmur/state`. */
  readonly stateRoot: string;
  /** Walls around the component host. */
  readonly componentHost: readonly string[];
  /** Allowed interpreters beside `filesystem.read_only` (W-SEC-017). */
  readonly readOnlyAdvisoryFor: readonly string[];
  /** What the work folder of a delegated child holds of its parent's; `null` when it began empty. */
  readonly copiedFolder: SnapshotReport | null;
}

const RESTRICTIONS: Readonly<Record<ContainmentClass, string>> = {
  advisory: "advisory",
  scoped: "enforced",
  sealed: "absent",
};

/** The report as a JSON object, its keys in the order of spec containment 16.2. */
export function scopeReport(manifest: CapsuleManifest, facts: ScopeFacts): JsonObject {
  const { capabilities } = manifest;
  const { decision, aggregate, hostPaths, hostFiles, guards, workdir } = facts.judgement;
  const tier = TIER_NAMES[decision.tier];
  const report: { [key: string]: JsonValue } = {
    declared_containment: decision.floor,
    achieved_containment: decision.achieved,
    host_containment: decision.host,
    floor_met: decision.shortfall === null,
  };
  if (decision.shortfall !== null) report.shortfall_reason = decision.shortfall;
  const purpose = (wanted: string) => hostFiles.filter(({ purpose }) => purpose === wanted).map(({ path }) => path);
  return {
    ...report,
    enforcement_tier: tier,
    routes: routesOf(manifest).map((route) => ({ route, enforcement_tier: tier })),
    userns_grant: decision.usernsGrant,
    landlock_abi: decision.landlockAbi,
    filesystem_scope: capabilities.scope,
    workdir_exec: capabilities.workdirExec,
    read_only_paths: capabilities.readOnly,
    read_only_advisory_for: facts.readOnlyAdvisoryFor,
    preopens: manifest.artifacts.filter(({ role }) => role !== "skill").map(preopen),
    network_allow: capabilities.networkAllow,
    unix_sockets: capabilities.unixSockets,
    shell_allow: capabilities.shellAllow,
    spawn_allow: capabilities.spawnAllow,
    spawn_workdir_snapshot: capabilities.workdirSnapshot,
    // What keeps commands off the folder it was copied from is what bounds them at all (roost seed "Workdir snapshot").
    parent_workdir: facts.copiedFolder === null ? null : {
      ...facts.copiedFolder,
      skipped: facts.copiedFolder.skipped.map((entry) => ({ ...entry })),
      restriction: RESTRICTIONS[decision.achieved],
    },
    images: null,
    env_allow: capabilities.envAllow,
    plan_submit: capabilities.planSubmit,
    install_skill: capabilities.installSkill,
    install_tool: capabilities.installTool,
    install_from: [],
    interpreter_runtime_grants: capabilities.interpreterRuntime.flatMap(({ binary, dirs }) =>
      dirs.map(({ path, listDir }) => `${binary}: ${path}${listDir ? " (list_dir)" : ""}`)
    ),
    derived_interpreter_runtime: [],
    trust_store: purpose("trust store"),
    declared_needs: [],
    pinned_programs: [],
    name_resolution: purpose("name resolution"),
    host_paths: hostPaths.map(({ path, access, credentials }) => ({ path, access, credentials })),
    exports_files: manifest.exports.files === null
      ? null
      : { root: manifest.exports.files.root, mode: "read-only", max_bytes: manifest.exports.files.maxBytes },
    peer_files: manifest.exports.peerFiles === null ? null : {
      root: manifest.exports.peerFiles.root,
      max_ttl_secs: manifest.exports.peerFiles.maxTtlSeconds ?? DEFAULT_PEER_TTL_SECONDS,
      max_bytes: manifest.exports.peerFiles.maxBytes,
    },
    peer_tasks: manifest.exports.peerTasks,
    peer_fetch_allow: capabilities.peerFetch ?? [],
    state_stores: manifest.artifacts.flatMap(({ bareName, grant }) => {
      const state = grant?.state ?? null;
      if (state === null) return [];
      const store = state.store ?? manifest.name;
      return [{ artifact: bareName, store, host_path: `${facts.stateRoot}/${store}` }];
    }),
    configured_artifacts: manifest.artifacts.filter(({ configJson }) => configJson !== null).map(({ bareName }) =>
      bareName
    ),
    staged_runtime_grants: capabilities.stagedRuntime.map(({ binary, sourcePath, pin }) =>
      `${binary}: ${sourcePath} (pin: ${pin})`
    ),
    // Placeholders and fetched files are the only things the runtime itself puts into a work folder.
    runtime_writes: [
      ...(!decision.privateMounts || workdir === null || !facts.judgement.commands ? [] : guards.placeholders
        .filter(({ grant }) => grant === workdir)
        .map(({ path, directory }) => ({
          path: path.slice(workdir.length + 1),
          kind: directory ? "directory" : "file",
          scope: "accessible",
          condition: "workdir-provided",
        }))),
      ...(capabilities.peerFetch === null
        ? []
        : [{ path: "peer-in", kind: "directory", scope: "accessible", condition: "peer-fetch" }]),
    ],
    io_max: {
      declared_bytes_per_sec: capabilities.resources.cgroupIoBytesPerSec,
      status: aggregate.io.status,
      ...(aggregate.io.reason === null ? {} : { reason: aggregate.io.reason }),
    },
    filesystem_boundary: {
      restriction: RESTRICTIONS[decision.achieved],
      not_protected: notProtected(decision),
    },
    private_mounts: decision.privateMounts,
    pid_namespace: decision.pidNamespace,
    aggregate_limits: {
      mechanism: aggregate.mechanism,
      ...(aggregate.reason === null ? {} : { reason: aggregate.reason }),
    },
    trusted_files: { guarded: decision.guarded, unguarded: decision.unguarded },
    component_host: facts.componentHost,
    program_configuration: purpose("program configuration"),
  };
}

/** Ways on which a process of the capsule's can come to be. */
function routesOf({ capabilities }: CapsuleManifest): string[] {
  const shell = capabilities.shellAllow.length > 0;
  return [
    ...(shell ? ["shell"] : []),
    ...(shell && capabilities.planSubmit ? ["plan-shell"] : []),
    "native-tool",
    ...(capabilities.spawnAllow.length > 0 ? ["spawn"] : []),
  ];
}

/** What the achieved class leaves open, in words; nothing of a sealed one. */
export function notProtected(decision: ContainmentDecision): string[] {
  const { achieved, tier, privateMounts, pidNamespace, caps, unguarded } = decision;
  if (achieved === "sealed") return [];
  const mediated = tier === "full" || tier === "sealed";
  return [
    mediated
      ? "paths outside the grants are denied to commands, not absent: their metadata stays visible"
      : `no kernel mechanism denies reads${privateMounts ? "" : " or writes"} of a command outside the work folder`,
    "HOME is rewritten for every command, so a probe of ~ proves nothing: test with an absolute path",
    ...(mediated && !privateMounts
      ? [
        "without private mounts an allowed loader can run what commands wrote, and modes and times of other files of " +
        "this user can be changed",
      ]
      : []),
    ...(tier !== "env" && !pidNamespace
      ? ["without a process namespace what a command leaves running can outlive it"]
      : []),
    ...(mediated ? caps.map(({ reason }) => reason) : []),
    ...(mediated && caps.length === 0 && unguarded.length > 0
      ? [`files that a later launch trusts can be written by commands: ${unguarded.join(", ")}`]
      : []),
  ];
}

/** What an entry gets as `.`, as the report has it. */
export function preopen(entry: ArtifactEntry): JsonObject {
  const { grant, role } = entry;
  const scope = grant?.scope ?? null;
  const surface = scope !== null
    ? "scoped-subtree"
    : grant?.records === true
    ? "records"
    : role === "hook"
    ? "nothing"
    : "whole-workdir";
  return { artifact: entry.bareName, role, scope, surface };
}

function list(label: string, items: readonly string[], indent = "  "): string[] {
  if (items.length === 0) return [`${indent}${label}: <none>`];
  return [`${indent}${label}:`, ...items.map((item) => `${indent}  - ${item}`)];
}

const SURFACES: Readonly<Record<string, string>> = {
  "whole-workdir": "the whole accessible workdir",
  "records": "the session's hook records",
  "nothing": "no directory",
};

function strings(value: JsonValue | undefined): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

function objects(value: JsonValue | undefined): readonly JsonObject[] {
  return Array.isArray(value)
    ? value.filter((item): item is JsonObject => item !== null && typeof item === "object")
    : [];
}

/** A preopen for people. */
export function preopenLine(entry: JsonObject): string {
  const { artifact, role, scope, surface } = entry;
  const what = surface === "scoped-subtree"
    ? `one subtree of the accessible workdir — capabilities.filesystem.scope: ${scope}`
    : SURFACES[String(surface)];
  return `${artifact} (${role}): ${what}`;
}

function hostPathLine({ path, access, credentials }: JsonObject): string {
  const reached = strings(credentials);
  return `${path} (${access})${reached.length === 0 ? "" : `, reaches credentials: ${reached.join(", ")}`}`;
}

/** The report for people (spec containment 16.1), from the JSON form, so that the two cannot differ. */
export function scopeText(report: JsonObject): string {
  const boundary = report.filesystem_boundary as JsonObject;
  const io = report.io_max as JsonObject;
  const limits = report.aggregate_limits as JsonObject;
  const trusted = report.trusted_files as JsonObject;
  const exported = report.exports_files as JsonObject | null;
  const peer = report.peer_files as JsonObject | null;
  const notProtected = strings(boundary.not_protected);
  const advisoryFor = strings(report.read_only_advisory_for);
  const readOnly = strings(report.read_only_paths);
  return [
    "Containment",
    `  declared:  ${report.declared_containment}`,
    `  achieved:  ${report.achieved_containment}`,
    `  floor met: ${report.floor_met ? "yes" : "no"}`,
    ...(report.floor_met ? [] : [`  reason:    ${report.shortfall_reason}`]),
    `  mechanism: ${report.enforcement_tier}`,
    `  userns grant: ${report.userns_grant ?? "n/a"}`,
    "",
    ...(notProtected.length === 0 ? [] : ["Not protected here", ...notProtected.map((line) => `  - ${line}`), ""]),
    "Effective grants",
    `  filesystem scope: ${report.filesystem_scope ?? "<none>"}`,
    `  workdir exec:     ${report.workdir_exec}`,
    ...list("read_only", readOnly),
    ...(readOnly.length === 0 ? [] : [
      advisoryFor.length === 0
        ? "  read_only enforcement: enforced"
        : `  read_only enforcement: advisory against ${advisoryFor.join(", ")}`,
    ]),
    ...list("preopens", objects(report.preopens).map(preopenLine)),
    ...list("network allow", strings(report.network_allow)),
    `  unix sockets:     ${report.unix_sockets}`,
    ...list("shell allow", strings(report.shell_allow)),
    ...list("spawn allow", strings(report.spawn_allow)),
    ...list("spawn workdir snapshot", strings(report.spawn_workdir_snapshot)),
    ...list("env allow", strings(report.env_allow)),
    `  plan submit:      ${report.plan_submit}`,
    ...list("install skill", strings(report.install_skill)),
    ...list("install tool", strings(report.install_tool)),
    ...list("interpreter runtime", strings(report.interpreter_runtime_grants)),
    ...list("staged runtime", strings(report.staged_runtime_grants)),
    ...list(
      "state stores",
      objects(report.state_stores).map(({ artifact, store, host_path }) => `${artifact}: ${store} -> ${host_path}`),
    ),
    ...list("artifact config", strings(report.configured_artifacts)),
    ...list("host paths", objects(report.host_paths).map(hostPathLine)),
    ...list("trust store", strings(report.trust_store)),
    ...list("name resolution", strings(report.name_resolution)),
    ...list("program configuration", strings(report.program_configuration)),
    ...list("trusted files", [
      ...strings(trusted.guarded),
      ...strings(trusted.unguarded).map((path) => `${path} (not guarded)`),
    ]),
    "",
    "Resource plane",
    ...(exported === null ? ["  exports.files: <none>"] : [
      `  exports.files root: ${exported.root}`,
      `  mode:               ${exported.mode}`,
      `  max bytes:          ${exported.max_bytes} (per file)`,
    ]),
    `  io.max:        ${io.status} (${io.declared_bytes_per_sec} bytes/s declared)`,
    `  limits:        ${limits.mechanism}${limits.reason === undefined ? "" : ` (${limits.reason})`}`,
    "",
    "Peer handoff",
    ...(peer === null ? ["  exports.peer_files: <none>"] : [
      `  exports.peer_files root: ${peer.root}`,
      `  max handle ttl: ${peer.max_ttl_secs}s`,
      `  max bytes: ${peer.max_bytes} (per file)`,
    ]),
    ...list("peer_fetch allow", strings(report.peer_fetch_allow)),
    "",
    ...list(
      "Runtime writes",
      objects(report.runtime_writes).map(({ path, kind, condition }) => `${path} (${kind}, ${condition})`),
      "",
    ),
    ...(report.floor_met ? [] : ["", "This is a report only: mur run would refuse this capsule here."]),
  ].join("\n");
}
