/**
 * The artifact manifest: the `murmur.yaml` packed inside a `.mur.zip` (spec manifest 5). It says what the artifact is; no
 * key of it grants anything.
 *
 * @module
 */
import { MurError, type SourcePlace } from "../../base/errors.ts";
import type { ArtifactRole, JsonObject, JsonValue } from "./capsule_manifest.ts";

/** How an artifact is packed and run (spec manifest 5.1, 5.4). */
export type Packaging = "wasm" | "native" | "static";

/** How the artifact's upstream takes its key. Read only when the capsule's entry declares `gateway:` (spec manifest 5.2). */
export type UpstreamAuth =
  | { readonly kind: "absent" }
  | { readonly kind: "usable"; readonly header: string; readonly value: string }
  /** `reason` is the text in the parentheses of `E-RUN-025`. */
  | { readonly kind: "unusable"; readonly reason: string };

/** `binding`, `execution_mode`, `commit_policy` as written; judged by `judgeHookContract` (spec manifest 5.3). */
export interface HookFields {
  readonly binding: string | null;
  readonly executionMode: string | null;
  readonly commitPolicy: string | null;
}

/** A packed manifest, every field read and defaulted. */
export interface ArtifactManifest {
  readonly file: string;
  /** Its text as it was packed. */
  readonly text: string;
  /** Bare name; its grammar is judged at build. */
  readonly name: string;
  readonly version: string;
  /** `runtime:` as written. */
  readonly runtime: string;
  /** The role it stands for; words of older artifacts are tools. */
  readonly role: ArtifactRole;
  /** How a tool runs. */
  readonly implementation: "wasm" | "native";
  readonly packaging: Packaging;
  /** What is packed besides `murmur.yaml`, defaults filled in. */
  readonly requiresFiles: readonly string[];
  readonly description: string | null;
  readonly tags: readonly string[];
  /** JSON Schema of a tool's argument, defaults filled in. */
  readonly inputSchema: JsonObject;
  readonly outputSchema: JsonValue | null;
  readonly hook: HookFields;
  readonly upstreamAuth: UpstreamAuth;
  /** Whether it still has the retired `inference_auth:` (`E-BLD-004` at build, `E-RUN-025` behind a gateway). */
  readonly hasInferenceAuth: boolean;
  /** Whether a `build:` block is written; `buildDeclaration` judges it. */
  readonly hasBuild: boolean;
  /** Where a value stands, by dotted path with `[i]` list positions; `undefined` when it was not written. */
  place(path: string): SourcePlace | undefined;
}

/** When a hook is called. */
export type HookBinding =
  | "on-stage"
  | "on-session-start"
  | "on-task-start"
  | "on-inference"
  | "on-tool-call"
  | "on-shell"
  | "on-compaction"
  | "on-task-end"
  | "on-session-end";

export type CommitPolicy = "none" | "write-manifests" | "replace-context" | "reopen-task" | "seed-context" | "deny";

/** A hook contract that passed the checks of spec manifest 5.3. */
export interface HookContract {
  /** `null`: every session event, not `on-stage`. */
  readonly binding: HookBinding | null;
  readonly executionMode: "blocking" | "async";
  readonly commitPolicy: CommitPolicy;
}

/**
 * Reads a packed manifest.
 *
 * @throws {MurError} `E-MAN-001`, `E-MAN-002`, `E-MAN-003`.
 */
export function parseArtifactManifest(_source: Uint8Array | string, file: string): ArtifactManifest {
  throw new MurError("E-MAN-002", `${file}: not read yet`);
}

/**
 * The hook contract of a manifest, judged.
 *
 * @throws {MurError} `E-MAN-003`, `hook <name>@<version> invalid config: <reason>`.
 */
export function judgeHookContract(_manifest: ArtifactManifest): HookContract {
  throw new MurError("E-MAN-003", "not judged yet");
}

/**
 * The `build:` block, judged (spec manifest 5.6); `null` without one. Only `mur build` asks.
 *
 * @throws {MurError} `E-MAN-003`, field `build` or `build.entry`; `E-BLD-002` for an unsafe entry path.
 */
export function buildDeclaration(_manifest: ArtifactManifest): { readonly entry: string } | null {
  throw new MurError("E-MAN-003", "not judged yet");
}
