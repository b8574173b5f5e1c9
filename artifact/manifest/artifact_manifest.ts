/**
 * The artifact manifest: the `murmur.yaml` packed inside a `.mur.zip` (spec manifest 5). It says what the artifact is; no
 * key of it grants anything.
 *
 * @module
 */
import { isJsonObject, type JsonObject, type JsonValue } from "../../base/json_value.ts";
import { isMap, isScalar, isSeq } from "yaml";
import { MurError, type SourcePlace } from "../../base/errors.ts";
import { RESERVED_HEADERS } from "../../base/reserved_headers.ts";
import { workdirPathProblem } from "../workdir_path.ts";
import type { ArtifactRole } from "./capsule_manifest.ts";
import { asYamlError, nearestPlace } from "./manifest_error.ts";
import { shownValue } from "./shown_value.ts";
import { yamlToJson } from "./yaml_json.ts";
import { MAX_YAML_DEPTH, readYamlSource, type YamlNode, type YamlSource, yamlType } from "./yaml_source.ts";

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
  /** `build:` as written, `null` without one; `buildDeclaration` judges it. */
  readonly build: { readonly entry: string | null } | null;
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

/** Names that frame, route or echo a request, or are the runtime's own; no key goes into them (spec manifest 5.2). */
const FORBIDDEN_HEADERS = new Set([
  "host",
  "origin",
  "referer",
  "cookie",
  "connection",
  "content-length",
  "content-type",
  "content-encoding",
  "expect",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  // Set by the gateway itself beside a key.
  "accept-encoding",
  ...RESERVED_HEADERS,
]);

const DEFAULT_INPUT_SCHEMA: JsonObject = { type: "object", properties: {} };

const ROLES: readonly ArtifactRole[] = ["tool", "driver", "hook", "skill"];
const PACKAGINGS: readonly Packaging[] = ["wasm", "native", "static"];

/** Reads the top level of an artifact manifest by YAML type. */
class TopLevel {
  readonly #entries: ReadonlyMap<string, YamlNode | null>;

  constructor(readonly source: YamlSource) {
    if (!isMap(source.root)) throw this.typeError("<root>", "mapping", source.root);
    this.#entries = new Map(source.entries(source.root).map((entry) => [entry.key ?? "", entry.value]));
  }

  typeError(field: string, expected: string, node: YamlNode | null): MurError {
    const place = field === "<root>" ? this.source.placeAt(0) : nearestPlace(this.source, field);
    return new MurError(
      "E-MAN-003",
      `murmur.yaml: field '${field}' has invalid type (expected ${expected}, got ${yamlType(node)})`,
      place === undefined ? {} : { place },
    );
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  get(key: string): YamlNode | null {
    return this.#entries.get(key) ?? null;
  }

  /** The value when it is a YAML string, else `null`. */
  string(key: string): string | null {
    return stringOf(this.get(key));
  }

  /** A required string. @throws {MurError} `E-MAN-001` when absent, `E-MAN-003` for another type. */
  required(field: string): string {
    const node = this.get(field);
    if (node === null) {
      throw new MurError("E-MAN-001", `murmur.yaml: missing required field '${field}'`, {
        place: nearestPlace(this.source, field) ?? this.source.placeAt(0),
      });
    }
    const value = stringOf(node);
    if (value === null) throw this.typeError(field, "string", node);
    return value;
  }
}

function stringOf(node: YamlNode | null): string | null {
  return isScalar(node) && typeof node.value === "string" ? node.value : null;
}

function readRequiresFiles(top: TopLevel, role: ArtifactRole): string[] {
  const node = top.get("requires_files");
  if (node === null) return role === "skill" ? ["skill.md"] : [];
  if (!isSeq(node)) throw top.typeError("requires_files", "list of strings", node);
  return top.source.items(node).map((item, index) => {
    const file = stringOf(item);
    if (file === null) throw top.typeError(`requires_files[${index}]`, "string", item);
    return file;
  });
}

function readPackaging(top: TopLevel, runtime: string, implementation: "wasm" | "native"): Packaging {
  const node = top.get("execution");
  if (node !== null) {
    const written = stringOf(node)?.toLowerCase();
    const packaging = PACKAGINGS.find((each) => each === written);
    if (packaging === undefined) throw top.typeError("execution", `one of: ${PACKAGINGS.join(", ")}`, node);
    return packaging;
  }
  if (runtime === "skill") return "static";
  return runtime === "tool" && implementation === "native" ? "native" : "wasm";
}

/** Whether no value lies deeper; whoever walks a schema may then recurse. */
function isNestedAtMost(value: JsonValue, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((child: JsonValue) => isNestedAtMost(child, depth - 1));
}

/** A mapping, or a string holding a JSON object; `null` for anything else. */
function readSchema(source: YamlSource, node: YamlNode | null): JsonValue | null {
  const text = stringOf(node);
  if (text !== null) {
    try {
      const value = JSON.parse(text) as JsonValue;
      return isNestedAtMost(value, MAX_YAML_DEPTH) ? value : null;
    } catch {
      return null;
    }
  }
  if (!isMap(node)) return null;
  const json = yamlToJson(source, node);
  return "value" in json ? json.value : null;
}

function readUpstreamAuth(top: TopLevel): UpstreamAuth {
  const unusable = (reason: string): UpstreamAuth => ({ kind: "unusable", reason });
  if (top.has("inference_auth")) return unusable("inference_auth is the retired name of upstream_auth");
  const node = top.get("upstream_auth");
  if (!top.has("upstream_auth")) return { kind: "absent" };
  if (!isMap(node)) return unusable("upstream_auth is not a mapping");
  const header = stringOf(top.source.entry(node, "header")?.value ?? null);
  if (header === null) return unusable("upstream_auth.header is missing or not a string");
  const value = stringOf(top.source.entry(node, "value")?.value ?? null);
  if (value === null) return unusable("upstream_auth.value is missing or not a string");
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$/.test(header)) {
    return unusable("upstream_auth.header is not a valid header name");
  }
  if (FORBIDDEN_HEADERS.has(header.toLowerCase())) {
    return unusable(`upstream_auth.header '${header}' routes or frames a request, is echoed, or is the runtime's own`);
  }
  if (value.split("{key}").length !== 2) return unusable("upstream_auth.value does not hold {key} exactly once");
  // Printable ASCII: what every server takes, and nothing that could end the header.
  if (!/^[\x20-\x7e]{1,4096}$/.test(value) || value !== value.trim()) {
    return unusable("upstream_auth.value is not a valid header value");
  }
  return { kind: "usable", header, value };
}

function readTags(source: YamlSource, node: YamlNode | null): string[] {
  return isSeq(node) ? source.items(node).map(stringOf).filter((tag) => tag !== null) : [];
}

function parse(text: Uint8Array | string, file: string): ArtifactManifest {
  const source = readYamlSource(text, file);
  const top = new TopLevel(source);
  const name = top.required("name");
  const version = top.required("version");
  const runtime = top.required("runtime");
  const role = ROLES.find((each) => each === runtime) ?? "tool";
  const implementation = top.string("implementation") === "native" ? "native" : "wasm";
  const inputNode = top.has("input_schema") ? top.get("input_schema") : top.get("input");
  const inputSchema = role === "skill" ? null : readSchema(source, inputNode);
  return {
    file,
    text: source.text,
    name,
    version,
    runtime,
    role,
    implementation,
    packaging: readPackaging(top, runtime, implementation),
    requiresFiles: readRequiresFiles(top, role),
    description: top.string("description"),
    tags: readTags(source, top.get("tags")),
    inputSchema: isJsonObject(inputSchema) ? inputSchema : DEFAULT_INPUT_SCHEMA,
    outputSchema: readSchema(source, top.get("output_schema")),
    hook: {
      binding: top.string("binding"),
      executionMode: top.string("execution_mode"),
      commitPolicy: top.string("commit_policy"),
    },
    upstreamAuth: readUpstreamAuth(top),
    hasInferenceAuth: top.has("inference_auth"),
    build: readBuild(top),
    place: (path) => source.place(path),
  };
}

function readBuild(top: TopLevel): ArtifactManifest["build"] {
  const node = top.get("build");
  if (node === null) return null;
  return { entry: isMap(node) ? stringOf(top.source.entry(node, "entry")?.value ?? null) : null };
}

/**
 * Reads a packed manifest. Unknown keys are ignored: a newer artifact may have more of them.
 *
 * @throws {MurError} `E-MAN-001` for a missing `name`, `version` or `runtime`; `E-MAN-002` for text that is no YAML;
 * `E-MAN-003` for a wrong type.
 */
export function parseArtifactManifest(source: Uint8Array | string, file: string): ArtifactManifest {
  try {
    return parse(source, file);
  } catch (error) {
    throw asYamlError(error);
  }
}

const BINDINGS: readonly HookBinding[] = [
  "on-stage",
  "on-session-start",
  "on-task-start",
  "on-inference",
  "on-tool-call",
  "on-shell",
  "on-compaction",
  "on-task-end",
  "on-session-end",
];
const MODES = ["blocking", "async"] as const;
const POLICIES: readonly CommitPolicy[] = [
  "none",
  "write-manifests",
  "replace-context",
  "reopen-task",
  "seed-context",
  "deny",
];

/** What a binding honours besides `none`. */
const HONOURED: Readonly<Partial<Record<HookBinding, CommitPolicy>>> = {
  "on-stage": "write-manifests",
  "on-compaction": "replace-context",
  "on-task-end": "reopen-task",
  "on-task-start": "seed-context",
  "on-shell": "deny",
  "on-tool-call": "deny",
};

/**
 * The hook contract of a manifest, judged before its component is compiled (spec manifest 5.3).
 *
 * @throws {MurError} `E-MAN-003`, `hook <name>@<version> invalid config: <reason>`.
 */
export function judgeHookContract(manifest: ArtifactManifest): HookContract {
  const refuse = (field: string, reason: string): MurError => {
    const place = manifest.place(field);
    return new MurError(
      "E-MAN-003",
      `hook ${shownValue(manifest.name)}@${shownValue(manifest.version)} invalid config: ${reason}`,
      place === undefined ? {} : { place },
    );
  };
  const word = <W extends string>(field: string, written: string | null, words: readonly W[]): W | null => {
    if (written === null) return null;
    const found = words.find((each) => each === written);
    if (found !== undefined) return found;
    throw refuse(field, `unknown ${field} '${shownValue(written)}' (expected one of: ${words.join(", ")})`);
  };
  const binding = word("binding", manifest.hook.binding, BINDINGS);
  const executionMode = word("execution_mode", manifest.hook.executionMode, MODES) ?? "blocking";
  const commitPolicy = word("commit_policy", manifest.hook.commitPolicy, POLICIES) ?? "none";
  if (executionMode === "async" && commitPolicy !== "none") {
    throw refuse(
      "commit_policy",
      `execution_mode 'async' takes no answer, so commit_policy must be 'none', not '${commitPolicy}'`,
    );
  }
  if (binding === "on-stage" && executionMode === "async") {
    throw refuse("execution_mode", "a hook bound to 'on-stage' must be 'blocking'");
  }
  if (binding === null && commitPolicy === "deny") {
    throw refuse("commit_policy", "commit_policy 'deny' needs a binding: 'on-shell' or 'on-tool-call'");
  }
  if (binding !== null && commitPolicy !== "none" && HONOURED[binding] !== commitPolicy) {
    const honoured = HONOURED[binding];
    throw refuse(
      "commit_policy",
      `binding '${binding}' honours ${
        honoured === undefined ? "no commit_policy" : `commit_policy '${honoured}'`
      }, not '${commitPolicy}'`,
    );
  }
  return { binding, executionMode, commitPolicy };
}

/**
 * The `build:` block, judged (spec manifest 5.6); `null` without one. Only `mur build` asks.
 *
 * @throws {MurError} `E-MAN-003`, field `build` or `build.entry`; `E-BLD-002` for an unsafe entry path.
 */
export function buildDeclaration(manifest: ArtifactManifest): { readonly entry: string } | null {
  if (manifest.build === null) return null;
  const refuse = (field: string, reason: string): MurError => {
    const place = manifest.place(field) ?? manifest.place("build");
    return new MurError(
      "E-MAN-003",
      `murmur.yaml: invalid build config for '${field}': ${reason}`,
      place === undefined ? {} : { place },
    );
  };
  const { entry } = manifest.build;
  if (entry === null || entry.trim() === "") throw refuse("build.entry", "a TypeScript or JavaScript file is needed");
  if (manifest.role === "skill") throw refuse("build", "a skill runs nothing, so there is nothing to build");
  if (manifest.implementation === "native") {
    throw refuse("build", "it makes a component, and 'implementation: native' is none");
  }
  if (manifest.packaging !== "wasm") {
    throw refuse("build", `it makes a component, and 'execution: ${manifest.packaging}' is none`);
  }
  const component = manifest.requiresFiles.find((file) => /^(?:\.\/)*[^/\\]+\.wasm$/.test(file));
  if (component !== undefined) {
    throw refuse("build", `it makes the root component, and requires_files lists '${shownValue(component)}'`);
  }
  const unsafe = workdirPathProblem(entry) !== null || entry.split("/").includes("..");
  if (unsafe) {
    const place = manifest.place("build.entry");
    throw new MurError(
      "E-BLD-002",
      `build.entry '${shownValue(entry)}' is not a path inside the project`,
      place === undefined ? {} : { place },
    );
  }
  return { entry };
}
