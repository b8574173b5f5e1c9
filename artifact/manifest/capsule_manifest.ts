/**
 * The capsule manifest as the rest of the program sees it: typed, defaults filled in, every value judged (spec manifest
 * 6 to 18). Produced by `parseCapsuleManifest`; nothing here reads a file or the environment.
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import type { SourcePlace } from "../../base/errors.ts";
import type { NetworkRule } from "../network_rules.ts";

/** Role of an `artifacts[]` entry. */
export type ArtifactRole = "tool" | "driver" | "hook" | "skill";

/** Containment classes, weakest first. */
export const CONTAINMENT_CLASSES = ["advisory", "scoped", "sealed"] as const;
export type ContainmentClass = typeof CONTAINMENT_CLASSES[number];

/** Where a credential comes from: `${NAME}` or the text itself (spec manifest 3.5). */
export type CredentialReference =
  | { readonly kind: "reference"; readonly name: string }
  | { readonly kind: "literal"; readonly value: string };

/** `gateway:` of an entry (spec manifest 8.5). `credential` is `null` exactly when it is keyless. */
export interface GatewayDeclaration {
  readonly endpoint: string;
  readonly credential: CredentialReference | null;
  /** Lowered from `inference.endpoint` and `inference.api_key` (spec manifest 11.6). */
  readonly olderForm: boolean;
}

/** A per-artifact `capabilities:` block (spec manifest 8.6). `null` members were not written. */
export interface ArtifactGrant {
  /** Raw entries; judged `E-CAP-001` at staging. */
  readonly networkAllow: readonly string[] | null;
  readonly scope: string | null;
  readonly records: boolean;
  /** `state:` present; `store` as written or `null` for the default. */
  readonly state: { readonly store: string | null } | null;
  readonly taskIoRead: boolean;
  readonly conversationRead: boolean;
  /** Sub-blocks written that do nothing on an entry (W-SEC-006, W-SEC-008), in table order. */
  readonly inert: readonly string[];
}

/** One `artifacts[]` entry. */
export interface ArtifactEntry {
  /** As written; bare or full. */
  readonly name: string;
  readonly bareName: string;
  /** `local` with a `source`. */
  readonly version: string;
  readonly role: ArtifactRole;
  readonly source: string | null;
  readonly promptPayload: boolean;
  readonly grant: ArtifactGrant | null;
  /** Compact JSON of `config` in the order it is written; `null` without one and for one that is refused. */
  readonly configJson: string | null;
  /** Why a written `config` is refused at staging, `E-CAP-010`; `null` when there is none or it is fine. */
  readonly configProblem: string | null;
  readonly gateway: GatewayDeclaration | null;
  readonly onOverflow: "drop" | "block";
  readonly place: SourcePlace;
}

/** `capabilities.limits` (spec manifest 9.7). */
export interface ComponentLimits {
  readonly memoryBytes: number;
  readonly tableElements: number;
  readonly instances: number;
  readonly deadlineSeconds: number;
  /** Whether the manifest wrote `deadline_seconds`; then it also replaces the hook default. */
  readonly deadlineDeclared: boolean;
}

/** `capabilities.resources` (spec manifest 9.8). */
export interface ProcessLimits {
  readonly maxProcesses: number;
  readonly maxOpenFiles: number;
  readonly maxFileSizeBytes: number;
  readonly cpuSeconds: number;
  readonly memoryBytes: number;
  readonly cgroupMemoryBytes: number;
  readonly cgroupPidsMax: number;
  readonly cgroupCpuPercent: number;
  readonly cgroupIoBytesPerSec: number;
  readonly workdirMaxBytes: number;
  /** Manifest keys that were written, e.g. `cgroup_pids_max`. */
  readonly declared: ReadonlySet<string>;
}

export interface InterpreterRuntimeGrant {
  readonly binary: string;
  readonly dirs: readonly { readonly path: string; readonly listDir: boolean }[];
}

export interface StagedRuntimeGrant {
  readonly binary: string;
  readonly sourcePath: string;
  readonly pin: string;
}

/** The capsule-wide `capabilities:` block, absent members filled with their "not granted" value. */
export interface Capabilities {
  /** Raw entries of `network.allow`; `lowerCapabilities` parses them. */
  readonly networkAllow: readonly string[];
  readonly unixSockets: boolean;
  /** `null`: no block, so no `fetch-peer-file`. */
  readonly peerFetch: readonly string[] | null;
  readonly scope: string | null;
  readonly workdirExec: boolean;
  readonly readOnly: readonly string[];
  readonly shellAllow: readonly string[];
  readonly stripEnv: readonly string[];
  readonly baselineEnv: readonly string[];
  readonly interpreterRuntime: readonly InterpreterRuntimeGrant[];
  readonly stagedRuntime: readonly StagedRuntimeGrant[];
  readonly spawnAllow: readonly string[];
  readonly workdirSnapshot: readonly string[];
  readonly envAllow: readonly string[];
  readonly limits: ComponentLimits;
  readonly resources: ProcessLimits;
  /** Capsule-wide `state:`/`conversation:` do nothing (W-SEC-014, W-SEC-016). */
  readonly stateDeclared: boolean;
  readonly conversationDeclared: boolean;
  readonly planSubmit: boolean;
  readonly installSkill: readonly string[];
  readonly installTool: readonly string[];
  readonly installDeclared: boolean;
  readonly containment: ContainmentClass | null;
}

export interface DriverChoice {
  /** As written in `driver.artifact`. */
  readonly artifact: string;
  /** Compact JSON of `driver.config`, `null` when absent. */
  readonly configJson: string | null;
}

export interface Inference {
  readonly transport: "http" | "process";
  readonly model: string | null;
  readonly driver: DriverChoice | null;
  readonly command: string | null;
  readonly maxTurns: number;
  readonly maxTokens: number | null;
  readonly maxSessionTokens: number | null;
  readonly toolRefresh: "compaction" | "immediate";
  readonly systemPrompt: string | null;
  readonly systemPromptFile: string | null;
  readonly systemPromptArtifact: string | null;
  readonly alternates: readonly { readonly name: string; readonly model: string; readonly artifact: string }[];
  readonly compaction: {
    readonly threshold: number;
    readonly model: string | null;
    readonly systemPrompt: string | null;
    readonly systemPromptFile: string | null;
    readonly dumpSummaries: boolean;
  };
}

export interface RetainByCount {
  readonly maxCount: number | null;
  readonly maxAgeSeconds: number | null;
}

/** A capsule manifest that passed every parse-time check. */
export interface CapsuleManifest {
  /** Path it was read from. */
  readonly file: string;
  /** Its text, kept for places in later refusals and for `runtime/murmur.yaml`. */
  readonly text: string;
  readonly name: string;
  readonly version: string;
  readonly murVersion: string | null;
  readonly artifacts: readonly ArtifactEntry[];
  readonly capabilities: Capabilities;
  readonly network: {
    readonly internalPort: number | null;
    readonly authentication: { readonly credentials: ReadonlyMap<string, readonly string[]> } | null;
    readonly hosts: readonly string[];
    readonly origins: readonly string[];
    readonly a2aCompat: readonly ("v0.3" | "rest")[];
  };
  /** `null`: a script capsule. */
  readonly inference: Inference | null;
  readonly context: {
    readonly maxTokens: number | null;
    readonly record: boolean;
    /** `null`: the capsule name. */
    readonly recordStore: string | null;
    readonly seedBudget: number;
    readonly seedOverflowMargin: number;
    readonly retain: RetainByCount | null;
  };
  readonly lifecycle: {
    readonly taskAcceptance: "none" | "single" | "queue";
    readonly afterTask: "exit" | "sleep";
    readonly queueDepth: number;
    readonly inputTimeoutSecs: number | null;
    readonly conversation: "stateless" | "threaded";
    readonly maxTaskReopens: number;
    readonly shellGraceSecs: number;
    readonly delegationDeadlineSecs: number;
  };
  readonly exports: {
    readonly files: { readonly root: string; readonly maxBytes: number } | null;
    readonly peerFiles:
      | { readonly root: string; readonly maxTtlSeconds: number | null; readonly maxBytes: number }
      | null;
    readonly peerTasks: boolean;
  };
  readonly control: {
    readonly settings: readonly string[];
    readonly secrets: readonly string[];
    readonly agentSettings: readonly string[];
  } | null;
  readonly observability: {
    readonly otelEndpoint: string | null;
    /** Lowered block of `MURMUR_EVAL_CONFIG`, `null` without `eval:`. */
    readonly evalConfig: JsonObject | null;
    readonly datasetId: string | null;
  };
  readonly trace: { readonly capture: "none" | "meta" | "content"; readonly retain: RetainByCount | null };
  /** Workspace registry setting; no meaning to `mur run`. */
  readonly registry: { readonly remoteUrl: string | null; readonly default: string | null };
  /** Where a value stands, by dotted path with `[i]` list positions; `undefined` when it was not written. */
  place(path: string): SourcePlace | undefined;
}

/** Capabilities lowered once: parsed, judged, frozen (spec manifest 9.13). */
export interface CapabilityPolicy {
  readonly network: readonly NetworkRule[];
  readonly peerFetch: readonly NetworkRule[];
  readonly capabilities: Capabilities;
}
