import assert from "node:assert/strict";
import Ajv2020 from "ajv/dist/2020";
import { parseDocument } from "yaml";
import { type Block, MANIFEST_BLOCK, type Shape } from "./manifest_blocks.ts";
import { manifestSchema } from "./manifest_schema.ts";
import { parseCapsuleManifest } from "./parse_capsule_manifest.ts";
import { ARTIFACT, EVERYTHING, EXAMPLE } from "../../tests/support/sample_manifests.ts";

const HEAD = "name: desk\nversion: '1.0'\n";

const Ajv = Ajv2020.default;
const validate = new Ajv({ strict: true, allowUnionTypes: true }).compile(manifestSchema());

function problems(text: string): string {
  const valid = validate(parseDocument(text, { schema: "core", version: "1.2", merge: false }).toJS());
  return valid ? "" : JSON.stringify(validate.errors);
}

Deno.test("the schema is a strict JSON Schema that valid manifests pass", () => {
  for (const text of [EXAMPLE, EVERYTHING, ARTIFACT, HEAD]) assert.equal(problems(text), "");
  assert.equal(
    problems(
      `${HEAD}capabilities:\nartifacts:\nnetwork: {authentication: }\nlifecycle: {after_task: }\nimplementation:\n`,
    ),
    "",
  );
  assert.equal(problems("name: 1\nversion: 1.10\n"), "");
});

Deno.test("what an editor can know is told: unknown keys, wrong types, wrong words, missing keys", () => {
  for (
    const text of [
      `${HEAD}capabilties: {}\n`,
      `${HEAD}capabilities: {filesystem: {readonly: []}}\n`,
      `${HEAD}artifacts: [{version: '1'}]\n`,
      `${HEAD}artifacts: [{name: a, runtime: wasm}]\n`,
      `${HEAD}context: {max_tokens: '5'}\n`,
      `${HEAD}context: {max_tokens: 0}\n`,
      `${HEAD}network: {internal_port: 70000}\n`,
      `${HEAD}network: {a2a_compat: [v1]}\n`,
      `${HEAD}lifecycle: {task_acceptance: Queue}\n`,
      `${HEAD}capabilities: {containment: strict}\n`,
      `${HEAD}exports: {files: {root: out, mode: read-only, max_bytes: 10MB}}\n`,
      `${HEAD}trace: {retain: {}}\n`,
      `${HEAD}trace: {retain: {max_messages: 5}}\n`,
      `${HEAD}build: {entry: a.ts, other: 1}\n`,
      `${HEAD}binding: sometimes\n`,
      `${HEAD}execution: jit\n`,
      "name: desk\n",
    ]
  ) assert.notEqual(problems(text), "", text);
});

/** Every key of the table with a text that reaches it. */
function* reach(block: Block, wrap: (inner: string) => string, path: string): Generator<{
  readonly path: string;
  readonly shape: Shape;
  readonly with: (value: string) => string;
}> {
  for (const { name, shape, artifactOnly } of block.keys) {
    if (artifactOnly) continue;
    const own = (value: string) => wrap(`{${name}: ${value}}`);
    const at = path === "" ? name : `${path}.${name}`;
    yield { path: at, shape, with: own };
    if (shape.kind === "block") yield* reach(shape.block, own, at);
    if (shape.kind === "list" && shape.item.kind === "block") {
      yield* reach(shape.item.block, (inner) => own(`[${inner}]`), `${at}[0]`);
    }
    if (shape.kind === "names" && shape.value.kind === "block") {
      yield* reach(shape.value.block, (inner) => own(`{any: ${inner}}`), `${at}.any`);
    }
  }
}

/** A value each shape refuses for its type. */
const WRONG: Readonly<Partial<Record<Shape["kind"], string>>> = {
  string: "{}",
  integer: "'5'",
  float: "'0.5'",
  boolean: "'true'",
  word: "nothing-like-it",
  list: "{}",
  block: "[]",
  names: "[]",
};

Deno.test("every key of the table is type-checked, known, and in the schema", () => {
  let checked = 0;
  for (const { path, shape, with: place } of reach(MANIFEST_BLOCK, (inner) => inner, "")) {
    const wrong = WRONG[shape.kind];
    if (wrong === undefined) continue;
    checked++;
    // The top level is written out, so that nothing but the type is wrong before it is checked.
    const text = place(wrong);
    assert.throws(() => parseCapsuleManifest(text, "m"), (error) => {
      assert.ok(error instanceof Error && "code" in error && error.code === "E-MAN-002", `${path}: ${error}`);
      assert.ok(error.message.includes(`'${path}'`), `${path}: ${error.message}`);
      return true;
    });
    assert.notEqual(problems(text), "", path);
  }
  assert.ok(checked > 150, String(checked));
});

Deno.test("every key of the table is described for editors", () => {
  const walk = (schema: Record<string, unknown>, path: string): void => {
    for (const [name, each] of Object.entries((schema.properties ?? {}) as Record<string, Record<string, unknown>>)) {
      assert.equal(typeof each.description, "string", `${path}.${name}`);
      walk(each, `${path}.${name}`);
      if (typeof each.items === "object") walk(each.items as Record<string, unknown>, `${path}.${name}[]`);
    }
  };
  walk(manifestSchema(), "");
});

Deno.test("the known keys are those of the specification, in its order", () => {
  const keys = (path: readonly string[]): string => {
    let block: Block = MANIFEST_BLOCK;
    for (const step of path) {
      const shape: Shape | undefined = block.keys.find((key) => key.name === step)?.shape;
      assert.ok(shape !== undefined, step);
      if (shape.kind === "block") block = shape.block;
      else if (shape.kind === "judged" && shape.block !== undefined) block = shape.block;
      else if (shape.kind === "list" && shape.item.kind === "block") block = shape.item.block;
      else if (shape.kind === "names" && shape.value.kind === "block") block = shape.value.block;
      else assert.fail(step);
    }
    return block.keys.filter((key) => !key.artifactOnly).map((key) => key.name).join(" ");
  };
  const rows: Record<string, string> = {
    "":
      "name version artifacts capabilities inference context observability trace network lifecycle exports control mur_version registry runtime implementation execution requires_files build",
    "build": "entry",
    "artifacts": "name version runtime source local_source prompt_payload capabilities on_overflow config gateway",
    "artifacts gateway": "endpoint api_key keyless",
    "capabilities":
      "network peer_fetch filesystem shell spawn env limits resources state task_io conversation plan install containment",
    "artifacts capabilities":
      "network peer_fetch filesystem shell spawn env limits resources state task_io conversation plan install containment",
    "capabilities network": "allow unix_sockets",
    "capabilities peer_fetch": "allow",
    "capabilities env": "allow",
    "capabilities filesystem": "scope workdir_exec read_only records",
    "capabilities shell": "allow strip_env baseline_env interpreter_runtime staged_runtime",
    "capabilities shell interpreter_runtime": "binary dirs",
    "capabilities shell interpreter_runtime dirs": "path list_dir",
    "capabilities shell staged_runtime": "binary source_path pin",
    "capabilities spawn": "allow workdir_snapshot",
    "capabilities limits": "memory_bytes table_elements instances deadline_seconds",
    "capabilities resources":
      "max_processes max_open_files max_file_size_bytes cpu_seconds memory_bytes cgroup_memory_bytes cgroup_pids_max cgroup_cpu_percent cgroup_io_bytes_per_sec workdir_max_bytes",
    "capabilities state": "store",
    "capabilities task_io": "read",
    "capabilities conversation": "read",
    "capabilities plan": "submit",
    "capabilities install": "skill tool",
    "inference":
      "transport endpoint model api_key command system_prompt system_prompt_file system_prompt_artifact driver provider compaction max_turns max_task_reopens max_tokens max_session_tokens tool_refresh alternates",
    "inference driver": "artifact config",
    "inference provider": "artifact config",
    "inference alternates": "name model driver",
    "inference alternates driver": "artifact config",
    "inference compaction": "threshold model system_prompt system_prompt_file dump_summaries",
    "context": "max_tokens record record_store seed_budget seed_overflow_margin retain",
    "observability": "otel_endpoint eval",
    "observability eval": "dataset_id scorers",
    "observability eval scorers": "type name max expected",
    "trace": "capture retain include_tool_output",
    "network": "internal_port authentication hosts origins a2a_compat",
    "network authentication": "scheme credentials",
    "network authentication credentials": "scopes",
    "lifecycle":
      "task_acceptance after_task queue_depth input_timeout_secs conversation max_task_reopens shell_grace_secs delegation_deadline_secs",
    "exports": "files peer_files peer_tasks",
    "exports files": "root mode max_bytes",
    "exports peer_files": "root max_ttl max_bytes",
    "exports peer_tasks": "accept",
    "control": "settings secrets agent_settings",
  };
  for (const [path, expected] of Object.entries(rows)) {
    assert.equal(keys(path === "" ? [] : path.split(" ")), expected, path);
  }
});
