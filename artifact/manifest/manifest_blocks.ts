/**
 * The blocks and keys of `murmur.yaml`, once (spec manifest 4 to 18, 20.5). From this table come the type checks, the
 * unknown-key findings and the JSON Schema; a key that is not here can be read by nothing.
 *
 * The order of keys is the order of spec manifest 4: it decides ties between suggestions and the order of findings.
 *
 * @module
 */
import { CONTAINMENT_CLASSES } from "./capsule_manifest.ts";

/** A JSON Schema fragment. */
export type JsonSchema = { readonly [key: string]: unknown };

/** What a value must be. */
export type Shape =
  /** Any non-null scalar; its value is its source text. `choices` are judged later and only shown to editors. */
  | { readonly kind: "string"; readonly choices?: readonly string[] }
  /** A plain YAML integer from 0 to `max`. `min` is judged later and only shown to editors. */
  | { readonly kind: "integer"; readonly max: number; readonly min?: number }
  | { readonly kind: "float"; readonly min: number; readonly max: number }
  | { readonly kind: "boolean" }
  /** One of the exact words, a wrong one being a type error. */
  | { readonly kind: "word"; readonly words: readonly string[] }
  | { readonly kind: "list"; readonly item: Shape }
  | { readonly kind: "block"; readonly block: Block }
  /** A mapping whose keys are names the operator chooses. */
  | { readonly kind: "names"; readonly value: Shape }
  /** Judged as a value by its reader; `schema` is for editors. Unknown keys are looked for when it names a block. */
  | { readonly kind: "judged"; readonly schema: JsonSchema; readonly block?: Block }
  /** Accepted, never read here. */
  | { readonly kind: "ignored"; readonly schema: JsonSchema };

/** One key of a block. */
export interface Key {
  readonly name: string;
  readonly shape: Shape;
  /** Shown by editors. */
  readonly about: string;
  /** Only an artifact manifest has it; in a capsule manifest it is unrecognized. */
  readonly artifactOnly?: boolean;
}

/** The keys of one block. */
export interface Block {
  readonly keys: readonly Key[];
  readonly required?: readonly string[];
}

const U16 = 0xffff;
const U32 = 0xffff_ffff;
/** Fields of 64 bits; a value beyond 2^53 - 1 is read as that, which bounds nothing either way. */
const WIDE = Number.MAX_SAFE_INTEGER;

const STRING: Shape = { kind: "string" };
const BOOLEAN: Shape = { kind: "boolean" };
const STRINGS: Shape = { kind: "list", item: STRING };

function text(name: string, about: string, choices?: readonly string[]): Key {
  return { name, about, shape: choices === undefined ? STRING : { kind: "string", choices } };
}
function flag(name: string, about: string): Key {
  return { name, about, shape: BOOLEAN };
}
function whole(name: string, about: string, max = U32, min = 1): Key {
  return { name, about, shape: { kind: "integer", max, min } };
}
function texts(name: string, about: string): Key {
  return { name, about, shape: STRINGS };
}
function block(name: string, about: string, keys: readonly Key[], required?: readonly string[]): Key {
  return { name, about, shape: { kind: "block", block: required === undefined ? { keys } : { keys, required } } };
}
function blocks(name: string, about: string, keys: readonly Key[], required?: readonly string[]): Key {
  const item: Shape = { kind: "block", block: required === undefined ? { keys } : { keys, required } };
  return { name, about, shape: { kind: "list", item } };
}
function judged(name: string, about: string, schema: JsonSchema): Key {
  return { name, about, shape: { kind: "judged", schema } };
}
function artifactOnly(name: string, about: string, schema: JsonSchema): Key {
  return { name, about, artifactOnly: true, shape: { kind: "ignored", schema } };
}

/** JSON Schema of a byte size (spec manifest 3.3). */
const SIZE: JsonSchema = {
  anyOf: [{ type: "integer", minimum: 1 }, { type: "string", pattern: "^\\s*[0-9]+(Ki|Mi|Gi)?\\s*$" }],
};
/** JSON Schema of a duration (spec manifest 3.4). */
const DURATION: JsonSchema = {
  anyOf: [{ type: "integer", minimum: 1 }, { type: "string", pattern: "^\\s*[0-9]+[smhd]?\\s*$" }],
};
const OBJECT: JsonSchema = { type: "object" };
const STRING_LIST: JsonSchema = { type: "array", items: { type: "string" } };

function retain(count: string, about: string): Key {
  return judged("retain", about, {
    type: "object",
    minProperties: 1,
    additionalProperties: false,
    properties: {
      [count]: { type: "integer", minimum: 1, description: "How many are kept" },
      max_age: { ...DURATION, description: "How long one is kept: seconds, or a number with s, m, h or d" },
    },
  });
}

const DRIVER: readonly Key[] = [
  text("artifact", "Name of the artifacts[] entry that is the driver"),
  judged("config", "Settings of the driver, given to it as JSON", OBJECT),
];

const LIMITS: readonly Key[] = [
  whole("memory_bytes", "Linear memory of one component", WIDE),
  whole("table_elements", "Table elements of one component"),
  whole("instances", "Instances of one call"),
  whole("deadline_seconds", "Seconds one call may run", WIDE),
];

const RESOURCES: readonly Key[] = [
  whole("max_processes", "Processes beside those already running", WIDE),
  whole("max_open_files", "Open files of one process", WIDE),
  whole("max_file_size_bytes", "Largest file a process may write", WIDE),
  whole("cpu_seconds", "CPU seconds of one process", WIDE),
  whole("memory_bytes", "Resident memory of one process", WIDE),
  whole("cgroup_memory_bytes", "Memory of the whole process tree", WIDE),
  whole("cgroup_pids_max", "Processes of the whole tree", WIDE),
  whole("cgroup_cpu_percent", "CPU of the whole tree, percent of one core"),
  whole("cgroup_io_bytes_per_sec", "Disk traffic of the whole tree", WIDE),
  whole("workdir_max_bytes", "Largest size of the work folder", WIDE),
];

const CAPABILITIES: readonly Key[] = [
  block("network", "Where components and commands may connect", [
    texts("allow", "host, host:port or http(s)://host[:port]"),
    flag("unix_sockets", "Whether commands may create AF_UNIX sockets"),
  ]),
  block("peer_fetch", "Peers whose handles fetch-peer-file may open", [texts("allow", "host[:port] or a URL")], [
    "allow",
  ]),
  block("filesystem", "The work folder", [
    text("scope", "Folder below the work folder that is mounted as ."),
    flag("workdir_exec", "Whether files written into the work folder may be executed"),
    texts("read_only", "Folders of the work folder that are never written"),
    flag("records", "Hook entries only: mount the session's hook records as ."),
  ]),
  block("shell", "Commands the agent may run", [
    texts("allow", "Names of binaries"),
    texts("strip_env", "Variables removed from their environment: NAME, PREFIX*, *SUFFIX, *MIDDLE*"),
    texts("baseline_env", "Variables of the host added to their environment"),
    blocks("interpreter_runtime", "Host folders an allowed interpreter reads its packages from", [
      text("binary", "A name of allow"),
      blocks("dirs", "Absolute folders", [
        text("path", "Absolute path"),
        flag("list_dir", "Whether the folder may be listed"),
      ], ["path", "list_dir"]),
    ], ["binary", "dirs"]),
    blocks("staged_runtime", "Host trees mounted read-only under containment sealed", [
      text("binary", "A name of allow"),
      text("source_path", "Absolute path"),
      text("pin", "What identifies its content"),
    ], ["binary", "source_path", "pin"]),
  ], ["allow"]),
  block("spawn", "Capsules this one may delegate to", [
    texts("allow", "Full names, <scope>/<name>"),
    texts("workdir_snapshot", "Of these, the ones that start in a copy of the work folder"),
  ]),
  block("env", "Variables of the host a component may see", [texts("allow", "Names")]),
  block("limits", "Bounds of one component", LIMITS),
  block("resources", "Bounds of commands and native tools", RESOURCES),
  block("state", "A durable folder of one artifact", [text("store", "Name of the store; default the capsule name")]),
  block("task_io", "Hook entries only: the task's input and output", [flag("read", "Whether they may be read")], [
    "read",
  ]),
  block("conversation", "Hook entries only: the recorded conversation", [flag("read", "Whether it may be read")], [
    "read",
  ]),
  block("plan", "Plans the agent may submit", [flag("submit", "Whether it may")], ["submit"]),
  block("install", "Artifacts a running session may pull", [
    texts("skill", "Names, prefix*, or *"),
    texts("tool", "Names, prefix*, or *"),
  ]),
  text("containment", "Weakest containment class this capsule runs under", CONTAINMENT_CLASSES),
];

const ARTIFACT: readonly Key[] = [
  text("name", "<scope>/<name> or <name>"),
  text("version", "Version to install; not with source"),
  text("runtime", "Role of the artifact", ["tool", "driver", "hook", "skill"]),
  text("source", "Local skill: a file, or a folder holding skill.md"),
  flag("local_source", "Whether source is allowed; default only for skills"),
  flag("prompt_payload", "Whether it may be the system prompt; default only for skills"),
  block("capabilities", "What this artifact alone may do", CAPABILITIES),
  text("on_overflow", "What an async hook loses when its queue is full", ["drop", "block"]),
  judged("config", "Settings of the artifact, given to it as JSON", OBJECT),
  {
    name: "gateway",
    about: "Upstream of the artifact; the runtime adds its key",
    shape: {
      kind: "block",
      block: {
        keys: [
          text("endpoint", "http(s) URL of the upstream"),
          text("api_key", "${NAME} of a credential"),
          judged("keyless", "Whether the upstream takes no key", { type: "boolean" }),
        ],
        required: ["endpoint"],
      },
    },
  },
];

const DOOR_SCOPES = {
  type: "array",
  minItems: 1,
  uniqueItems: true,
  items: { type: "string" },
};

const BUILD: Block = { keys: [text("entry", "TypeScript or JavaScript file")] };

/** Every key of the top level and below. */
export const MANIFEST_BLOCK: Block = {
  required: ["name", "version"],
  keys: [
    text("name", "Name of the capsule or artifact"),
    text("version", "Its version"),
    blocks("artifacts", "What the capsule is made of", ARTIFACT, ["name"]),
    block("capabilities", "What the capsule may do; what is not written is not granted", CAPABILITIES),
    block("inference", "The model; without it the capsule runs its own component", [
      text("transport", "How the model is reached", ["http", "process"]),
      text("endpoint", "Older form of gateway.endpoint on the driver's entry"),
      text("model", "Name of the model"),
      text("api_key", "Older form of gateway.api_key on the driver's entry"),
      text("command", "With transport process: executable run instead of the one the driver names"),
      text("system_prompt", "System prompt"),
      text("system_prompt_file", "File holding it"),
      text("system_prompt_artifact", "Name of the artifacts[] entry holding it"),
      block("driver", "Driver of the model", DRIVER),
      block("provider", "Older name of driver", DRIVER),
      block("compaction", "When and how the conversation is shortened", [
        {
          name: "threshold",
          about: "Fraction of context.max_tokens at which it is",
          shape: { kind: "float", min: 0, max: 1 },
        },
        text("model", "Model that does it; default inference.model"),
        text("system_prompt", "Prompt it is done with"),
        text("system_prompt_file", "File holding that prompt"),
        flag("dump_summaries", "Whether summaries are appended to out/compaction-summaries.jsonl"),
      ]),
      whole("max_turns", "Turns of one task"),
      whole("max_task_reopens", "Older form of lifecycle.max_task_reopens", U32, 0),
      whole("max_tokens", "Largest answer asked for"),
      whole("max_session_tokens", "Tokens the session may spend", WIDE),
      text("tool_refresh", "When newly installed tools reach the model", ["compaction", "immediate"]),
      blocks("alternates", "Further driver and model pairs to switch to", [
        text("name", "Name of the choice"),
        text("model", "Name of the model"),
        block("driver", "Driver of the model", DRIVER, ["artifact"]),
      ], ["name", "model", "driver"]),
    ]),
    block("context", "The conversation", [
      whole("max_tokens", "Tokens of the session's context"),
      text("record", "Whether conversations are kept", ["on", "off"]),
      text("record_store", "Name they are kept under; default the capsule name"),
      {
        name: "seed_budget",
        about: "Fraction of max_tokens a seed may take",
        shape: { kind: "float", min: 0, max: 1 },
      },
      {
        name: "seed_overflow_margin",
        about: "Slack over seed_budget within which the oldest messages are dropped",
        shape: { kind: "float", min: 0, max: 1 },
      },
      retain("max_messages", "What is kept of old conversations"),
    ]),
    block("observability", "Exported traces and evaluation", [
      text("otel_endpoint", "OTLP/HTTP base URL"),
      block("eval", "Settings of mur eval", [
        text("dataset_id", "Dataset the run belongs to"),
        blocks("scorers", "How a run is scored", [
          text("type", "exit_ok, max_turns, max_tokens, tool_sequence or llm_judge"),
          text("name", "Name of the score; default the type"),
          whole("max", "Bound of max_turns and max_tokens", WIDE, 0),
          texts("expected", "Tools of tool_sequence"),
        ], ["type"]),
      ]),
    ]),
    block("trace", "What the trace holds", [
      text("capture", "Hashes or bodies of what the model saw", ["none", "meta", "content"]),
      retain("max_sessions", "What is kept of old sessions"),
      flag("include_tool_output", "Older form of capture"),
    ]),
    block("network", "The capsule's own door", [
      whole("internal_port", "Port it listens on; default chosen by the system", U16, 0),
      block("authentication", "Who may call", [
        text("scheme", "How callers prove it", ["bearer"]),
        {
          name: "credentials",
          about: "Further tokens besides the operator's",
          shape: {
            kind: "names",
            value: {
              kind: "block",
              block: { keys: [judged("scopes", "Door methods it may call", DOOR_SCOPES)], required: ["scopes"] },
            },
          },
        },
      ], ["scheme"]),
      texts("hosts", "Further host names the door answers to"),
      texts("origins", "Web origins that may call"),
      {
        name: "a2a_compat",
        about: "Older and REST forms of A2A",
        shape: { kind: "list", item: { kind: "string", choices: ["v0.3", "rest"] } },
      },
    ]),
    block("lifecycle", "How many tasks, and what happens between them", [
      {
        name: "task_acceptance",
        about: "Which tasks are taken",
        shape: { kind: "word", words: ["none", "single", "queue"] },
      },
      { name: "after_task", about: "What follows a task", shape: { kind: "word", words: ["exit", "sleep"] } },
      whole("queue_depth", "Tasks that may wait"),
      whole("input_timeout_secs", "Seconds a question waits for its answer", WIDE, 0),
      {
        name: "conversation",
        about: "Whether a task goes on where its context stopped",
        shape: { kind: "word", words: ["stateless", "threaded"] },
      },
      whole("max_task_reopens", "How often a hook may reopen one task", U32, 0),
      whole("shell_grace_secs", "Seconds before a command goes to the background", WIDE, 0),
      whole("delegation_deadline_secs", "Seconds one delegation may run", WIDE),
    ]),
    block("exports", "What others see of the work folder", [
      block("files", "Files the operator may read", [
        text("root", "Folder below the work folder"),
        text("mode", "What may be done", ["read-only"]),
        judged("max_bytes", "Largest file", SIZE),
      ], ["root", "mode"]),
      block("peer_files", "Files the agent may hand to peers", [
        text("root", "Folder below the work folder"),
        judged("max_ttl", "Longest life of a handle", DURATION),
        judged("max_bytes", "Largest file", SIZE),
      ], ["root"]),
      block("peer_tasks", "Tasks of peers", [flag("accept", "Whether they are taken")], ["accept"]),
    ]),
    block("control", "What may change while the capsule runs", [
      judged("settings", "What a controller may change", STRING_LIST),
      judged("secrets", "Credentials a controller injects", STRING_LIST),
      judged("agent_settings", "What the agent may change", STRING_LIST),
    ]),
    text("mur_version", "Version of mur this was written for"),
    block("registry", "Where mur install and mur publish look", [
      text("remote_url", "Address of a remote registry"),
      text("default", "Which registry is used", ["local", "remote"]),
    ]),
    { name: "runtime", about: "Artifact manifest: its role", shape: { kind: "ignored", schema: { type: "string" } } },
    {
      name: "implementation",
      about: "Artifact manifest: how a tool runs",
      shape: { kind: "ignored", schema: { enum: ["wasm", "native", null] } },
    },
    {
      name: "execution",
      about: "Artifact manifest: how it is packed",
      shape: {
        kind: "ignored",
        schema: {
          type: ["string", "null"],
          pattern: "^([Ww][Aa][Ss][Mm]|[Nn][Aa][Tt][Ii][Vv][Ee]|[Ss][Tt][Aa][Tt][Ii][Cc])$",
        },
      },
    },
    {
      name: "requires_files",
      about: "Artifact manifest: files packed besides murmur.yaml",
      shape: { kind: "ignored", schema: { type: ["array", "null"], items: { type: "string" } } },
    },
    {
      name: "build",
      about: "Artifact manifest: the TypeScript it is built from",
      shape: {
        kind: "judged",
        block: BUILD,
        schema: {
          type: "object",
          required: ["entry"],
          additionalProperties: false,
          properties: { entry: { type: "string", description: "TypeScript or JavaScript file" } },
        },
      },
    },
    artifactOnly("description", "What it does, shown to the model", { type: ["string", "null"] }),
    artifactOnly("tags", "Words it is found by", { type: ["array", "null"] }),
    artifactOnly("input_schema", "JSON Schema of a tool's argument", { type: ["object", "string", "null"] }),
    artifactOnly("output_schema", "JSON Schema of its result", { type: ["object", "string", "null"] }),
    artifactOnly("binding", "Hook: event it is called on", {
      enum: [
        "on-stage",
        "on-session-start",
        "on-task-start",
        "on-inference",
        "on-tool-call",
        "on-shell",
        "on-compaction",
        "on-task-end",
        "on-session-end",
        null,
      ],
    }),
    artifactOnly("execution_mode", "Hook: whether the session waits for it", { enum: ["blocking", "async", null] }),
    artifactOnly("commit_policy", "Hook: what its answer may change", {
      enum: ["none", "write-manifests", "replace-context", "reopen-task", "seed-context", "deny", null],
    }),
    artifactOnly("upstream_auth", "How its upstream takes the key", {
      type: ["object", "null"],
      required: ["header", "value"],
      properties: {
        header: { type: "string", description: "Header the key goes into" },
        value: { type: "string", description: "Its value, with {key} once", pattern: "\\{key\\}" },
      },
    }),
  ],
};

/** The key of that name, `undefined` when the block has none. */
export function findKey(block: Block, name: string): Key | undefined {
  return block.keys.find((key) => key.name === name);
}
