/**
 * Reads a capsule manifest: YAML to the typed {@linkcode CapsuleManifest}, every refusal with code, file, line and column
 * (spec manifest 2 to 19). Nothing here reads the environment or resolves a credential.
 *
 * @module
 */
import { MurError, reasonOf, type Warning } from "../../base/errors.ts";
import { VERSION } from "../../base/version.ts";
import { readArtifacts } from "./artifact_entries.ts";
import { readCapabilities } from "./capabilities_block.ts";
import type { CapsuleManifest } from "./capsule_manifest.ts";
import { readControl } from "./control_block.ts";
import { readDoor } from "./door_block.ts";
import { readExports } from "./exports_block.ts";
import { judgeDrivers, readInference } from "./inference_block.ts";
import { MANIFEST_BLOCK } from "./manifest_blocks.ts";
import { asYamlError, Refusals } from "./manifest_error.ts";
import { BlockReader, checkTypes } from "./manifest_reader.ts";
import { readObservability } from "./observability_block.ts";
import { readRetain } from "./retain_block.ts";
import { shownValue } from "./shown_value.ts";
import { unknownKeyWarnings } from "./unknown_keys.ts";
import { MAX_YAML_BYTES, readYamlSource } from "./yaml_source.ts";

/** How a manifest is read. */
export interface ParseOptions {
  /** Version of the running program, for the line about unknown keys of a newer one; default: this build's. */
  readonly runningVersion?: string;
  /** Whether literal keys are dropped: a reader that only needs grants holds no secret (spec manifest 3.5). */
  readonly dropLiteralKeys?: boolean;
}

/** What reading gives besides the manifest. */
export interface ParsedCapsuleManifest {
  readonly manifest: CapsuleManifest;
  /** `W-SEC-019` lines, in the order of spec manifest 4. */
  readonly warnings: readonly Warning[];
  /** Lines for stderr that carry no code (older spellings, an ignored `version`). */
  readonly notices: readonly string[];
}

function readContext(root: BlockReader, refuse: Refusals): CapsuleManifest["context"] {
  const context = root.child("context");
  const refusal = (key: string, reason: string) => refuse.config("inference", context.at(key), reason);
  const maxTokens = context.integer("max_tokens");
  if (maxTokens === 0) throw refusal("max_tokens", "must be greater than 0");
  const fraction = (key: string): number => {
    const value = context.float(key) ?? 0.1;
    if (!(value >= 0 && value <= 1)) throw refusal(key, "must be from 0.0 to 1.0");
    return value;
  };
  const seedBudget = fraction("seed_budget");
  const seedOverflowMargin = fraction("seed_overflow_margin");
  const record = context.text("record") ?? "on";
  if (record !== "on" && record !== "off") {
    throw refusal("record", `must be one of: on, off; got '${shownValue(record)}'`);
  }
  return {
    maxTokens,
    record: record === "on",
    recordStore: context.text("record_store")?.trim() ?? null,
    seedBudget,
    seedOverflowMargin,
    retain: readRetain(context, "max_messages", "inference", refuse),
  };
}

function readTrace(root: BlockReader, refuse: Refusals, notices: string[]): CapsuleManifest["trace"] {
  const trace = root.child("trace");
  const word = trace.text("capture");
  if (word !== null && word !== "none" && word !== "meta" && word !== "content") {
    throw refuse.config("trace", "trace.capture", `must be one of: none, meta, content; got '${shownValue(word)}'`);
  }
  let capture: CapsuleManifest["trace"]["capture"] = word ?? "meta";
  const older = trace.boolean("include_tool_output");
  if (older !== null) {
    if (word !== null) {
      throw refuse.config(
        "trace",
        "trace.include_tool_output",
        "is an older spelling of trace.capture, which is also declared; remove it",
      );
    }
    capture = older ? "content" : "meta";
    notices.push(`warning: trace.include_tool_output is an older spelling; write 'capture: ${capture}' instead`);
  }
  return { capture, retain: readRetain(trace, "max_sessions", "trace", refuse) };
}

function readLifecycle(root: BlockReader, refuse: Refusals): CapsuleManifest["lifecycle"] {
  const lifecycle = root.child("lifecycle");
  const positive = (key: string, fallback: number): number => {
    const value = lifecycle.integer(key) ?? fallback;
    if (value === 0) throw refuse.config("lifecycle", lifecycle.at(key), "must be greater than 0");
    return value;
  };
  return {
    taskAcceptance: lifecycle.word("task_acceptance", "single"),
    afterTask: lifecycle.word("after_task", "exit"),
    queueDepth: positive("queue_depth", 1),
    inputTimeoutSecs: lifecycle.integer("input_timeout_secs"),
    conversation: lifecycle.word("conversation", "stateless"),
    maxTaskReopens: lifecycle.integer("max_task_reopens") ?? root.child("inference").integer("max_task_reopens") ?? 1,
    shellGraceSecs: lifecycle.integer("shell_grace_secs") ?? 10,
    delegationDeadlineSecs: positive("delegation_deadline_secs", 600),
  };
}

function parse(source: Uint8Array | string, file: string, options: ParseOptions): ParsedCapsuleManifest {
  const yaml = readYamlSource(source, file);
  const unknown = checkTypes(yaml, MANIFEST_BLOCK);
  const refuse = new Refusals(yaml, unknown);
  const root = BlockReader.root(yaml, MANIFEST_BLOCK);
  const notices: string[] = [];
  const dropLiterals = options.dropLiteralKeys ?? false;

  const name = root.filled("name");
  if (name === null) throw refuse.missing("name");
  const version = root.filled("version");
  if (version === null) throw refuse.missing("version");
  const declared = readArtifacts(root, refuse, notices, dropLiterals);

  const ceiling = root.child("capabilities");
  if (ceiling.present("task_io")) {
    throw refuse.config("capability", ceiling.at("task_io"), "only the artifacts: entry of a hook may declare it");
  }
  if (root.written("config")) {
    throw refuse.config(
      "capability",
      "config",
      "a capsule has no config of its own",
      "declare config: on the artifacts: entry it is for",
    );
  }
  const capabilities = readCapabilities(ceiling, refuse, false);
  const reading = readInference(root, declared, refuse, notices, dropLiterals);
  judgeDrivers(root, reading, refuse);
  const context = readContext(root, refuse);
  const observability = readObservability(root, notices);
  const trace = readTrace(root, refuse, notices);
  const network = readDoor(root, capabilities, refuse);
  const lifecycle = readLifecycle(root, refuse);
  const exports = readExports(root, refuse);
  const control = readControl(root, reading, refuse);
  const { inference, artifacts } = reading;
  if (inference !== null && inference.alternates.length > 0) {
    const selectable = [...control?.settings ?? [], ...control?.agentSettings ?? []].includes("inference.driver");
    if (!selectable) {
      throw refuse.config(
        "inference",
        "inference.alternates",
        "nothing can switch to them",
        "list inference.driver under control.settings or control.agent_settings",
      );
    }
  }
  const registry = root.child("registry");
  const murVersion = root.filled("mur_version")?.trim() ?? null;
  return {
    notices,
    warnings: unknownKeyWarnings(unknown, murVersion, options.runningVersion ?? VERSION),
    manifest: {
      file,
      text: yaml.text,
      name,
      version,
      murVersion,
      artifacts,
      capabilities,
      network,
      inference,
      context,
      lifecycle,
      exports,
      control,
      observability,
      trace,
      registry: { remoteUrl: registry.filled("remote_url"), default: registry.filled("default") },
      place: (path) => yaml.place(path),
    },
  };
}

/**
 * Parses a capsule manifest.
 *
 * @param file Path as the operator would name it; places carry it.
 * @throws {MurError} `E-MAN-001`, `E-MAN-002`, `E-MAN-003`, `E-CAP-018`.
 */
export function parseCapsuleManifest(
  source: Uint8Array | string,
  file: string,
  options: ParseOptions = {},
): ParsedCapsuleManifest {
  try {
    return parse(source, file, options);
  } catch (error) {
    throw asYamlError(error);
  }
}

/**
 * Reads at most as much of a manifest as would be parsed.
 *
 * @throws {MurError} `E-IO-001` `murmur.yaml not found at <path>`, `E-IO-003` for any other failure.
 */
export function readManifestBytes(path: string): Uint8Array {
  try {
    using file = Deno.openSync(path, { read: true });
    // One byte more than there should be tells the end. A pipe has no size, and a file may grow.
    let bytes = new Uint8Array(Math.min(file.statSync().size, MAX_YAML_BYTES) + 1);
    let length = 0;
    for (;;) {
      if (length === bytes.length) {
        if (length > MAX_YAML_BYTES) return bytes;
        const more = new Uint8Array(MAX_YAML_BYTES + 1);
        more.set(bytes);
        bytes = more;
      }
      const read = file.readSync(bytes.subarray(length));
      if (read === null) return bytes.subarray(0, length);
      length += read;
    }
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) {
      throw new MurError("E-IO-001", `murmur.yaml not found at ${path}`, { cause: error });
    }
    throw new MurError("E-IO-003", `failed to read murmur.yaml at ${path}: ${reasonOf(error)}`, { cause: error });
  }
}

/**
 * Reads and parses the capsule manifest at a path.
 *
 * @throws {MurError} `E-IO-001`, `E-IO-003`, and those of {@linkcode parseCapsuleManifest}.
 */
// deno-lint-ignore require-await -- a small file is read at once: turns of the event loop would cost a launch more
export async function readCapsuleManifest(path: string, options: ParseOptions = {}): Promise<ParsedCapsuleManifest> {
  const bytes = readManifestBytes(path);
  // An empty file is a placeholder that keeps the name from being taken: it reads as absent (spec session 4.7).
  if (bytes.length === 0) throw new MurError("E-IO-001", `murmur.yaml not found at ${path}: the file there is empty`);
  return parseCapsuleManifest(bytes, path, options);
}

/**
 * The line about a `mur_version` that is not the running one, for stderr; `null` when they agree or none is pinned
 * (spec manifest 7).
 */
export function murVersionNotice(manifest: CapsuleManifest, running: string = VERSION): string | null {
  if (manifest.murVersion === null || manifest.murVersion === running) return null;
  return `warning: manifest requires mur ${shownValue(manifest.murVersion)} but you are running mur ${running}`;
}
