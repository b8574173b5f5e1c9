/** Manifests that are refused: one row for each rule, with code, message and place. */
import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { parseCapsuleManifest } from "./parse_capsule_manifest.ts";

const HEAD = "name: desk\nversion: '1.0'\n";

/** An agent capsule whose parts can be replaced. */
function agent(parts: { artifacts?: string; inference?: string; rest?: string } = {}): string {
  const artifacts = parts.artifacts ??
    "  - {name: acme/drv, version: '1', runtime: driver, gateway: {endpoint: https://llm.example, keyless: true}}\n";
  const inference = parts.inference ?? "";
  return `${HEAD}artifacts:\n${artifacts}inference:\n  model: m\n  driver: {artifact: acme/drv}\n${inference}${
    parts.rest ?? ""
  }`;
}

/** One entry and nothing else. */
function entry(fields: string): string {
  return `${HEAD}artifacts:\n  - ${fields}\n`;
}

const ALTERNATES = "  alternates:\n    - {name: fast, model: m2, driver: {artifact: acme/drv}}\n";
const SELECT = "control: {settings: [inference.driver]}\n";

/** What is refused: title, text, code, message, and the line of the place. */
const ROWS: readonly (readonly [string, string, string, RegExp, number?])[] = [
  // Reading (2.1)
  [
    "an empty file",
    "",
    "E-MAN-002",
    /^murmur\.yaml: YAML syntax error at line 1, column 1: the file is null, expected a mapping$/,
  ],
  ["a list as root", "- a\n", "E-MAN-002", /the file is sequence, expected a mapping/],
  ["a scalar as root", "desk\n", "E-MAN-002", /the file is string/],
  [
    "a syntax error",
    "name: [a\nversion: 1\n",
    "E-MAN-002",
    /^murmur\.yaml: YAML syntax error at line \d+, column \d+: \S/,
  ],
  ["two documents", `${HEAD}---\n${HEAD}`, "E-MAN-002", /more than one document/, 3],
  ["a key twice", `${HEAD}name: other\n`, "E-MAN-002", /the key 'name' is written twice/, 3],
  ["a key twice, quoted", `${HEAD}"name": other\n`, "E-MAN-002", /written twice/, 3],
  [
    "a key twice inside a config",
    entry("{name: a, version: '1', config: {x: 1, x: 2}}"),
    "E-MAN-002",
    /'x' is written twice/,
    4,
  ],
  ["tabs as indentation", `${HEAD}context:\n\tmax_tokens: 5\n`, "E-MAN-002", /tabs are not allowed/i, 4],
  ["a NUL", `name: a\0b\nversion: 1\n`, "E-MAN-002", /U\+0000/, 1],
  ["an escaped NUL", `name: "a\\0b"\nversion: 1\n`, "E-MAN-002", /NUL/, 1],
  ["a control character", `${HEAD}# \u001b[2J\n`, "E-MAN-002", /U\+001B/, 3],
  ["an unknown tag", `${HEAD}mur_version: !env VERSION\n`, "E-MAN-002", /tag/i, 3],
  ["a binary tag", `${HEAD}mur_version: !!binary aGk=\n`, "E-MAN-002", /tag/i, 3],
  ["an alias without anchor", `${HEAD}mur_version: *x\n`, "E-MAN-002", /alias without an anchor/, 3],
  ["an alias inside its anchor", `${HEAD}capabilities: &a\n  network: *a\n`, "E-MAN-002", /inside its own anchor/, 4],
  ["a placeholder of the documentation", `name: {{ v.name }}\nversion: 1\n`, "E-MAN-002", /./, 1],
  ["a key that is a list", `${HEAD}? [a, b]\n: 1\n`, "E-MAN-002", /a key that is no scalar/],

  // Required fields (2.4)
  ["no name", "version: '1'\n", "E-MAN-001", /^murmur\.yaml: missing required field 'name'$/, 1],
  ["a null name", "name:\nversion: '1'\n", "E-MAN-001", /'name'/, 1],
  ["a blank name", "version: '1'\nname: '  '\n", "E-MAN-001", /'name'/, 2],
  ["no version", "name: desk\n", "E-MAN-001", /'version'/],
  ["a blank version", "name: desk\nversion: ''\n", "E-MAN-001", /'version'/, 2],

  // Types (2.2)
  ["a mapping as string", "name: {a: b}\nversion: 1\n", "E-MAN-002", /'name' is mapping, expected string/, 1],
  ["a list as string", "name: desk\nversion: [1]\n", "E-MAN-002", /'version' is sequence, expected string/, 2],
  ["a quoted integer", `${HEAD}context: {max_tokens: "5"}\n`, "E-MAN-002", /'context\.max_tokens' is string/, 3],
  ["a negative integer", `${HEAD}context: {max_tokens: -5}\n`, "E-MAN-002", /is -5, expected a whole number from 0/, 3],
  ["a float as integer", `${HEAD}context: {max_tokens: 5.0}\n`, "E-MAN-002", /is 5\.0/, 3],
  ["an exponent as integer", `${HEAD}context: {max_tokens: 1e3}\n`, "E-MAN-002", /is 1e3/, 3],
  ["underscores in an integer", `${HEAD}context: {max_tokens: 1_000}\n`, "E-MAN-002", /is string/, 3],
  ["an integer beyond its width", `${HEAD}network: {internal_port: 65536}\n`, "E-MAN-002", /from 0 to 65535/, 3],
  [
    "an integer beyond 64 bits",
    `${HEAD}capabilities: {limits: {memory_bytes: 18446744073709551616}}\n`,
    "E-MAN-002",
    /memory_bytes/,
    3,
  ],
  [
    "yes as boolean",
    `${HEAD}capabilities: {network: {unix_sockets: yes}}\n`,
    "E-MAN-002",
    /'capabilities\.network\.unix_sockets' is string, expected boolean/,
    3,
  ],
  ["a string as float", `${HEAD}context: {seed_budget: "0.1"}\n`, "E-MAN-002", /expected number/, 3],
  ["a string as list", `${HEAD}capabilities: {network: {allow: a.example}}\n`, "E-MAN-002", /expected list/, 3],
  [
    "null inside a list",
    `${HEAD}capabilities: {network: {allow: [~]}}\n`,
    "E-MAN-002",
    /allow\[0\]' is null, expected string/,
    3,
  ],
  ["a scalar as block", `${HEAD}capabilities: all\n`, "E-MAN-002", /'capabilities' is string, expected mapping/, 3],
  ["a scalar as entry", `${HEAD}artifacts: [acme/x]\n`, "E-MAN-002", /'artifacts\[0\]' is string, expected mapping/, 3],
  [
    "another word of task_acceptance",
    `${HEAD}lifecycle: {task_acceptance: Queue}\n`,
    "E-MAN-002",
    /is 'Queue', expected one of: none, single, queue/,
    3,
  ],
  [
    "another word of after_task",
    `${HEAD}lifecycle:\n  after_task: stop\n`,
    "E-MAN-002",
    /expected one of: exit, sleep/,
    4,
  ],
  ["another word of conversation", `${HEAD}lifecycle: {conversation: on}\n`, "E-MAN-002", /stateless, threaded/, 3],
  [
    "a scorer without type",
    `${HEAD}observability:\n  eval:\n    scorers:\n      - {name: a}\n`,
    "E-MAN-002",
    /'observability\.eval\.scorers\[0\]\.type' is missing/,
    6,
  ],

  // Entries (8)
  [
    "an entry without name",
    entry("{version: '1'}"),
    "E-MAN-003",
    /^murmur\.yaml: invalid artifact declaration at index 0: missing required field 'name'$/,
    4,
  ],
  ["a name with capitals", entry("{name: Acme/x, version: '1'}"), "E-MAN-003", /index 0: invalid name 'Acme\/x'/, 4],
  ["a name of three parts", entry("{name: a/b/c, version: '1'}"), "E-MAN-003", /not <scope>\/<name>/, 4],
  ["a name that climbs", entry("{name: ../x, version: '1'}"), "E-MAN-003", /invalid name/, 4],
  [
    "two entries with one name",
    `${HEAD}artifacts:\n  - {name: a/x, version: '1'}\n  - {name: a/x, version: '2'}\n`,
    "E-MAN-003",
    /index 1: 'a\/x' is declared twice/,
    5,
  ],
  [
    "two entries with one bare name",
    `${HEAD}artifacts:\n  - {name: a/x, version: '1'}\n  - {name: x, version: '1'}\n`,
    "E-MAN-003",
    /index 1: 'x' and 'a\/x' have the same bare name/,
    5,
  ],
  ["runtime: wasm", entry("{name: x, version: '1', runtime: wasm}"), "E-MAN-003", /runtime 'wasm' is no role/, 4],
  ["runtime: native", entry("{name: x, version: '1', runtime: native}"), "E-MAN-003", /runtime 'native' is no role/, 4],
  [
    "an unknown role",
    entry("{name: x, version: '1', runtime: agent}"),
    "E-MAN-003",
    /unknown runtime 'agent' \(expected one of: tool, driver, hook, skill\)/,
    4,
  ],
  ["an entry without version", entry("{name: x}"), "E-MAN-003", /missing required field 'version'/, 4],
  [
    "a source of a tool",
    entry("{name: x, source: ./x}"),
    "E-MAN-003",
    /artifact 'x' declares 'source:' but does not declare 'local_source: true' \(runtime: tool\)/,
    4,
  ],
  [
    "a source of a skill that says no",
    entry("{name: x, runtime: skill, source: ./x, local_source: false}"),
    "E-MAN-003",
    /\(runtime: skill\)/,
    4,
  ],
  [
    "capabilities on a skill",
    entry("{name: x, runtime: skill, source: ./x, capabilities: {}}"),
    "E-MAN-003",
    /takes no 'capabilities'/,
    4,
  ],
  [
    "config on a skill",
    entry("{name: x, runtime: skill, version: '1', config: }"),
    "E-MAN-003",
    /takes no 'config'/,
    4,
  ],
  [
    "gateway on a skill",
    entry("{name: x, runtime: skill, version: '1', gateway: }"),
    "E-MAN-003",
    /takes no 'gateway'/,
    4,
  ],
  ["on_overflow on a tool", entry("{name: x, version: '1', on_overflow: drop}"), "E-MAN-003", /only for a hook/, 4],
  [
    "an unknown on_overflow",
    entry("{name: x, version: '1', runtime: hook, on_overflow: wait}"),
    "E-MAN-003",
    /unknown on_overflow 'wait'/,
    4,
  ],
  [
    "install on an entry",
    entry("{name: x, version: '1', capabilities: {install: {tool: ['*']}}}"),
    "E-MAN-003",
    /invalid capability config for 'artifacts\[0\]\.capabilities\.install'/,
    4,
  ],
  [
    "task_io on a tool",
    entry("{name: x, version: '1', capabilities: {task_io: {read: true}}}"),
    "E-MAN-003",
    /'artifacts\[0\]\.capabilities\.task_io': only a hook/,
    4,
  ],
  [
    "conversation on a driver",
    entry("{name: x, version: '1', runtime: driver, capabilities: {conversation: {read: true}}}"),
    "E-MAN-003",
    /conversation': only a hook/,
    4,
  ],
  [
    "task_io without read",
    entry("{name: x, version: '1', runtime: hook, capabilities: {task_io: {}}}"),
    "E-MAN-003",
    /task_io\.read': must be set explicitly to true or false/,
    4,
  ],
  [
    "conversation without read",
    entry("{name: x, version: '1', runtime: hook, capabilities: {conversation: {read: }}}"),
    "E-MAN-003",
    /conversation\.read': must be set explicitly/,
    4,
  ],
  [
    "records on a tool",
    entry("{name: x, version: '1', capabilities: {filesystem: {records: true}}}"),
    "E-MAN-003",
    /filesystem\.records': only a hook/,
    4,
  ],
  [
    "records beside scope",
    entry("{name: x, version: '1', runtime: hook, capabilities: {filesystem: {records: true, scope: a}}}"),
    "E-MAN-003",
    /cannot stand beside/,
    4,
  ],
  [
    "a limit of 0 on an entry",
    entry("{name: x, version: '1', capabilities: {limits: {instances: 0}}}"),
    "E-MAN-003",
    /'artifacts\[0\]\.capabilities\.limits\.instances': must be greater than zero/,
    4,
  ],

  // Gateways (8.5)
  ["a null gateway", entry("{name: x, version: '1', gateway: }"), "E-MAN-003", /gateway\.endpoint is missing/, 4],
  [
    "a gateway without endpoint",
    entry("{name: x, version: '1', gateway: {keyless: true}}"),
    "E-MAN-003",
    /gateway\.endpoint is missing/,
    4,
  ],
  [
    "an endpoint with a reference",
    entry("{name: x, version: '1', gateway: {endpoint: 'https://${HOST}', keyless: true}}"),
    "E-MAN-003",
    /contains '\$\{'/,
    4,
  ],
  [
    "an endpoint that is no URL",
    entry("{name: x, version: '1', gateway: {endpoint: api.example, keyless: true}}"),
    "E-MAN-003",
    /'x': gateway\.endpoint 'api\.example' is not a URL/,
    4,
  ],
  [
    "an endpoint of another scheme",
    entry("{name: x, version: '1', gateway: {endpoint: 'ftp://h', keyless: true}}"),
    "E-MAN-003",
    /scheme other than/,
    4,
  ],
  [
    "an endpoint with user information",
    entry("{name: x, version: '1', gateway: {endpoint: 'https://u:hunter2@h', keyless: true}}"),
    "E-MAN-003",
    /'https:\/\/\*\*\*@h' carries user information/,
    4,
  ],
  [
    "an endpoint with a query",
    entry("{name: x, version: '1', gateway: {endpoint: 'https://h/?', keyless: true}}"),
    "E-MAN-003",
    /has a query/,
    4,
  ],
  [
    "an endpoint with a fragment",
    entry("{name: x, version: '1', gateway: {endpoint: 'https://h/#', keyless: true}}"),
    "E-MAN-003",
    /has a fragment/,
    4,
  ],
  [
    "a clear-text endpoint elsewhere",
    entry("{name: x, version: '1', gateway: {endpoint: 'http://h', keyless: true}}"),
    "E-MAN-003",
    /clear text/,
    4,
  ],
  [
    "keyless that is no boolean",
    entry("{name: x, version: '1', gateway: {endpoint: 'https://h', keyless: 'yes'}}"),
    "E-MAN-003",
    /gateway\.keyless is string/,
    4,
  ],
  [
    "keyless beside a key",
    entry("{name: x, version: '1', gateway: {endpoint: 'https://h', keyless: true, api_key: '${K}'}}"),
    "E-MAN-003",
    /both 'api_key' and 'keyless: true'/,
    4,
  ],
  [
    "keyless beside a blank key",
    entry("{name: x, version: '1', gateway: {endpoint: 'https://h', keyless: true, api_key: }}"),
    "E-MAN-003",
    /both/,
    4,
  ],
  [
    "no credential",
    entry("{name: x, version: '1', gateway: {endpoint: 'https://h'}}"),
    "E-CAP-018",
    /artifact 'x' declares gateway\.endpoint 'https:\/\/h' without a credential/,
    4,
  ],
  [
    "a blank credential on loopback",
    entry("{name: x, version: '1', gateway: {endpoint: 'http://127.0.0.1:1', api_key: ' '}}"),
    "E-CAP-018",
    /without a credential/,
    4,
  ],

  // Capabilities (9)
  [
    "capsule-wide task_io",
    `${HEAD}capabilities: {task_io: {read: true}}\n`,
    "E-MAN-003",
    /invalid capability config for 'capabilities\.task_io'/,
    3,
  ],
  ["top-level config", `${HEAD}config: {}\n`, "E-MAN-003", /for 'config'/, 3],
  ["top-level null config", `${HEAD}config:\n`, "E-MAN-003", /for 'config'/, 3],
  [
    "peer_fetch without allow",
    `${HEAD}capabilities: {peer_fetch: {}}\n`,
    "E-MAN-003",
    /'capabilities\.peer_fetch\.allow': must contain at least one entry/,
    3,
  ],
  [
    "a bad peer_fetch entry",
    `${HEAD}capabilities: {peer_fetch: {allow: [ok, 'h/p']}}\n`,
    "E-MAN-003",
    /peer_fetch\.allow\[1\]': 'h\/p': a path is not allowed/,
    3,
  ],
  [
    "capsule-wide records",
    `${HEAD}capabilities: {filesystem: {records: false}}\n`,
    "E-MAN-003",
    /'capabilities\.filesystem\.records'/,
    3,
  ],
  [
    "an empty shell block",
    `${HEAD}capabilities: {shell: {}}\n`,
    "E-MAN-003",
    /'capabilities\.shell\.allow': must contain at least one binary/,
    3,
  ],
  [
    "a path as binary",
    `${HEAD}capabilities: {shell: {allow: [jq, /bin/sh]}}\n`,
    "E-MAN-003",
    /shell\.allow\[1\]': '\/bin\/sh' is not the bare name/,
    3,
  ],
  ["a dot as binary", `${HEAD}capabilities: {shell: {allow: ['..']}}\n`, "E-MAN-003", /not the bare name/, 3],
  ["an empty binary", `${HEAD}capabilities: {shell: {allow: ['']}}\n`, "E-MAN-003", /not the bare name/, 3],
  [
    "an interpreter that is not allowed",
    `${HEAD}capabilities:\n  shell:\n    allow: [jq]\n    interpreter_runtime: [{binary: python3, dirs: [{path: /usr, list_dir: true}]}]\n`,
    "E-MAN-003",
    /interpreter_runtime\[0\]\.binary': 'python3' is not in capabilities\.shell\.allow/,
    6,
  ],
  [
    "an interpreter without directories",
    `${HEAD}capabilities: {shell: {allow: [jq], interpreter_runtime: [{binary: jq}]}}\n`,
    "E-MAN-003",
    /interpreter_runtime\[0\]\.dirs': must contain at least one/,
    3,
  ],
  [
    "a relative interpreter directory",
    `${HEAD}capabilities: {shell: {allow: [jq], interpreter_runtime: [{binary: jq, dirs: [{path: lib, list_dir: true}]}]}}\n`,
    "E-MAN-003",
    /dirs\[0\]\.path': 'lib' is not an absolute path/,
    3,
  ],
  [
    "a directory without list_dir",
    `${HEAD}capabilities: {shell: {allow: [jq], interpreter_runtime: [{binary: jq, dirs: [{path: /lib}]}]}}\n`,
    "E-MAN-003",
    /list_dir': must be set explicitly/,
    3,
  ],
  [
    "a staged runtime that is not allowed",
    `${HEAD}capabilities: {shell: {allow: [jq], staged_runtime: [{binary: sh, source_path: /x, pin: p}]}}\n`,
    "E-MAN-003",
    /staged_runtime\[0\]\.binary'/,
    3,
  ],
  [
    "a staged runtime beside an interpreter grant",
    `${HEAD}capabilities: {shell: {allow: [jq], interpreter_runtime: [{binary: jq, dirs: [{path: /x, list_dir: false}]}], staged_runtime: [{binary: jq, source_path: /x, pin: p}]}}\n`,
    "E-MAN-003",
    /declare one of them/,
    3,
  ],
  [
    "a relative staged runtime",
    `${HEAD}capabilities: {shell: {allow: [jq], staged_runtime: [{binary: jq, source_path: x, pin: p}]}}\n`,
    "E-MAN-003",
    /source_path': 'x' is not an absolute path/,
    3,
  ],
  [
    "a staged runtime with a blank pin",
    `${HEAD}capabilities: {shell: {allow: [jq], staged_runtime: [{binary: jq, source_path: /x, pin: ' '}]}}\n`,
    "E-MAN-003",
    /pin': missing required field/,
    3,
  ],
  [
    "a bare name to spawn",
    `${HEAD}capabilities: {spawn: {allow: [worker]}}\n`,
    "E-MAN-003",
    /'capabilities\.spawn\.allow\[0\]': 'worker' is not a full name/,
    3,
  ],
  [
    "two capsules with one bare name",
    `${HEAD}capabilities: {spawn: {allow: [a/w, b/w]}}\n`,
    "E-MAN-003",
    /spawn\.allow\[1\]'.*same bare name/,
    3,
  ],
  ["one capsule twice", `${HEAD}capabilities: {spawn: {allow: [a/w, a/w]}}\n`, "E-MAN-003", /same bare name/, 3],
  [
    "a snapshot of a capsule not allowed",
    `${HEAD}capabilities: {spawn: {allow: [a/w], workdir_snapshot: [a/x]}}\n`,
    "E-MAN-003",
    /workdir_snapshot\[0\]': 'a\/x' is not in/,
    3,
  ],
  [
    "a limit of 0",
    `${HEAD}capabilities:\n  limits:\n    deadline_seconds: 0\n`,
    "E-MAN-003",
    /'capabilities\.limits\.deadline_seconds': must be greater than zero/,
    5,
  ],
  [
    "a resource of 0",
    `${HEAD}capabilities: {resources: {cgroup_pids_max: 0}}\n`,
    "E-MAN-003",
    /'capabilities\.resources\.cgroup_pids_max': must be greater than zero/,
    3,
  ],
  [
    "capsule-wide conversation without read",
    `${HEAD}capabilities: {conversation: {}}\n`,
    "E-MAN-003",
    /'capabilities\.conversation\.read'/,
    3,
  ],
  [
    "plan without submit",
    `${HEAD}capabilities: {plan: {}}\n`,
    "E-MAN-003",
    /'capabilities\.plan\.submit': must be set explicitly/,
    3,
  ],
  [
    "install without patterns",
    `${HEAD}capabilities: {install: {tool: []}}\n`,
    "E-MAN-003",
    /'capabilities\.install': must list/,
    3,
  ],
  [
    "a bad install pattern",
    `${HEAD}capabilities: {install: {skill: ['a*b']}}\n`,
    "E-MAN-003",
    /'capabilities\.install\.skill': 'a\*b' is not a pattern/,
    3,
  ],
  [
    "an unknown containment class",
    `${HEAD}capabilities: {containment: strict}\n`,
    "E-MAN-003",
    /'capabilities\.containment': must be one of: advisory, scoped, sealed; got 'strict'/,
    3,
  ],

  // Inference (11)
  [
    "a threshold of 0",
    agent({ inference: "  compaction: {threshold: 0}\n" }),
    "E-MAN-003",
    /invalid inference config for 'inference\.compaction\.threshold'/,
    8,
  ],
  ["a threshold above 1", agent({ inference: "  compaction: {threshold: 1.01}\n" }), "E-MAN-003", /threshold/, 8],
  [
    "a threshold that is no number",
    agent({ inference: "  compaction: {threshold: .nan}\n" }),
    "E-MAN-003",
    /threshold/,
    8,
  ],
  [
    "two compaction prompts",
    agent({ inference: "  compaction: {system_prompt: a, system_prompt_file: b}\n" }),
    "E-MAN-003",
    /'inference\.compaction\.system_prompt'/,
    8,
  ],
  [
    "two prompt sources",
    agent({ inference: "  system_prompt: a\n  system_prompt_file: b\n" }),
    "E-MAN-003",
    /'inference\.system_prompt': declare only one/,
    8,
  ],
  [
    "max_turns of 0",
    agent({ inference: "  max_turns: 0\n" }),
    "E-MAN-003",
    /'inference\.max_turns': must be greater than 0/,
    8,
  ],
  [
    "max_tokens of 0",
    agent({ inference: "  max_tokens: 0\n" }),
    "E-MAN-003",
    /'inference\.max_tokens': must be greater than 0/,
    8,
  ],
  ["max_session_tokens of 0", agent({ inference: "  max_session_tokens: 0\n" }), "E-MAN-003", /max_session_tokens/, 8],
  [
    "an unknown transport",
    agent({ inference: "  transport: stdio\n" }),
    "E-MAN-003",
    /'inference\.transport': unknown value 'stdio'/,
    8,
  ],
  ["no model", `${HEAD}inference: {}\n`, "E-MAN-003", /'inference\.model': missing required field/, 3],
  [
    "driver.config that is a list",
    agent({ inference: "" }).replace("{artifact: acme/drv}", "{artifact: acme/drv, config: [1]}"),
    "E-MAN-003",
    /'inference\.driver\.config': expected mapping\/object/,
    7,
  ],
  [
    "driver.config with a number as key",
    agent().replace("{artifact: acme/drv}", "{artifact: acme/drv, config: {1: x}}"),
    "E-MAN-003",
    /'inference\.driver\.config': a key is not a string/,
    7,
  ],
  [
    "driver.config without JSON form",
    agent().replace("{artifact: acme/drv}", "{artifact: acme/drv, config: {x: .inf}}"),
    "E-MAN-003",
    /no JSON form/,
    7,
  ],
  [
    "a driver that is not declared",
    `${HEAD}inference: {model: m, driver: {artifact: acme/drv}}\n`,
    "E-MAN-003",
    /'inference\.driver\.artifact': 'acme\/drv' is not declared in artifacts:/,
    3,
  ],
  [
    "a driver with another role",
    agent({ artifacts: "  - {name: acme/drv, version: '1'}\n" }),
    "E-MAN-003",
    /declared with runtime: tool, and a driver is needed/,
    7,
  ],
  [
    "a driver without gateway",
    agent({ artifacts: "  - {name: acme/drv, version: '1', runtime: driver}\n" }),
    "E-MAN-003",
    /the artifacts: entry 'acme\/drv' has no gateway/,
    7,
  ],
  [
    "a gateway on a driver nobody names",
    agent({ rest: "" }).replace(
      "inference:",
      "  - {name: acme/other, version: '1', runtime: driver, gateway: {endpoint: 'https://h', keyless: true}}\ninference:",
    ),
    "E-MAN-003",
    /index 1: driver 'acme\/other' declares gateway/,
    5,
  ],
  [
    "a gateway on a driver of a script capsule",
    entry("{name: d, version: '1', runtime: driver, gateway: {endpoint: 'https://h', keyless: true}}"),
    "E-MAN-003",
    /neither inference\.driver nor/,
    4,
  ],
  [
    "an unknown tool_refresh",
    agent({ inference: "  tool_refresh: never\n" }),
    "E-MAN-003",
    /'inference\.tool_refresh': must be one of: compaction, immediate; got 'never'/,
    8,
  ],
  [
    "a prompt artifact that is not declared",
    agent({ inference: "  system_prompt_artifact: p\n" }),
    "E-MAN-003",
    /'inference\.system_prompt_artifact': 'p' is not declared/,
    8,
  ],
  [
    "a prompt artifact that is none",
    agent({ inference: "  system_prompt_artifact: acme/drv\n" }),
    "E-MAN-003",
    /is no prompt payload/,
    8,
  ],

  // Alternates (11.4)
  [
    "alternates nothing can select",
    agent({ inference: ALTERNATES }),
    "E-MAN-003",
    /'inference\.alternates': nothing can switch to them/,
    8,
  ],
  [
    "an alternate without name",
    agent({ inference: ALTERNATES.replace("name: fast, ", ""), rest: SELECT }),
    "E-MAN-003",
    /'inference\.alternates\[0\]\.name': missing required field/,
    9,
  ],
  [
    "an alternate called primary",
    agent({ inference: ALTERNATES.replace("fast", "primary"), rest: SELECT }),
    "E-MAN-003",
    /alternates\[0\]\.name': 'primary'/,
    9,
  ],
  [
    "an alternate with a bad name",
    agent({ inference: ALTERNATES.replace("fast", "Fast_1"), rest: SELECT }),
    "E-MAN-003",
    /is not a name/,
    9,
  ],
  [
    "two alternates with one name",
    agent({ inference: ALTERNATES + "    - {name: fast, model: m3, driver: {artifact: drv}}\n", rest: SELECT }),
    "E-MAN-003",
    /alternates\[1\]\.name': 'fast' is declared twice/,
    10,
  ],
  [
    "an alternate without model",
    agent({ inference: ALTERNATES.replace("model: m2, ", ""), rest: SELECT }),
    "E-MAN-003",
    /alternates\[0\]\.model': missing/,
    9,
  ],
  [
    "an alternate without driver",
    agent({ inference: ALTERNATES.replace(", driver: {artifact: acme/drv}", ""), rest: SELECT }),
    "E-MAN-003",
    /alternates\[0\]\.driver\.artifact': missing/,
    9,
  ],
  [
    "an alternate with a config",
    agent({ inference: ALTERNATES.replace("{artifact: acme/drv}", "{artifact: acme/drv, config: {}}"), rest: SELECT }),
    "E-MAN-003",
    /alternates\[0\]\.driver\.config'/,
    9,
  ],
  [
    "an alternate that is the primary pair by its bare name",
    agent({ inference: ALTERNATES.replace("m2", "m").replace("acme/drv", "drv"), rest: SELECT }),
    "E-MAN-003",
    /'inference\.alternates\[0\]': the same driver and model/,
    9,
  ],
  [
    "an alternate whose driver is not declared",
    agent({ inference: ALTERNATES.replace("acme/drv", "acme/none"), rest: SELECT }),
    "E-MAN-003",
    /alternates\[0\]\.driver\.artifact': 'acme\/none' is not declared/,
    9,
  ],
  [
    "an alternate whose driver has no gateway",
    agent({ inference: ALTERNATES.replace("acme/drv", "acme/b"), rest: SELECT }).replace(
      "inference:",
      "  - {name: acme/b, version: '1', runtime: driver}\ninference:",
    ),
    "E-MAN-003",
    /'acme\/b' has no gateway/,
    10,
  ],

  // Process (11.3)
  ...([
    "max_tokens: 5",
    "tool_refresh: immediate",
    "endpoint: https://h",
    "api_key: ${K}",
    "alternates: [{name: a, model: b, driver: {artifact: drv}}]",
  ].map((line) =>
    [
      `under process: ${line}`,
      `${HEAD}artifacts:\n  - {name: drv, version: '1', runtime: driver}\ninference:\n  transport: process\n  driver: {artifact: drv}\n  ${line}\n`,
      "E-MAN-003",
      new RegExp(`'inference\\.${line.split(":")[0]}': is not valid with transport: process`),
      8,
    ] as const
  )),
  ...(["capabilities: {}", "config: {}", "config: "].map((field) =>
    [
      `a process driver with ${field}`,
      `${HEAD}artifacts:\n  - {name: drv, version: '1', runtime: driver, ${field}}\ninference: {transport: process, driver: {artifact: drv}}\n`,
      "E-MAN-003",
      /index 0: process driver 'drv' declares '(capabilities|config)'/,
      4,
    ] as const
  )),
  [
    "a process driver with gateway",
    `${HEAD}artifacts:\n  - {name: drv, version: '1', runtime: driver, gateway: {endpoint: 'https://h', keyless: true}}\ninference: {transport: process, driver: {artifact: drv}}\n`,
    "E-MAN-003",
    /a process driver holds no credential/,
    4,
  ],
  [
    "a process driver that is not declared",
    `${HEAD}inference: {transport: process, driver: {artifact: drv}}\n`,
    "E-MAN-003",
    /'drv' is not declared/,
    3,
  ],

  // Older forms (11.6)
  [
    "inference.endpoint beside a gateway",
    agent({ inference: "  endpoint: https://h\n" }),
    "E-MAN-003",
    /'inference\.endpoint': was removed; set gateway\.endpoint on the artifacts: entry 'acme\/drv' instead/,
    8,
  ],
  [
    "inference.api_key beside a gateway",
    agent({ inference: "  api_key: ${K}\n" }),
    "E-MAN-003",
    /'inference\.api_key': was removed; set gateway\.api_key/,
    8,
  ],
  [
    "inference.api_key without endpoint",
    agent({ artifacts: "  - {name: acme/drv, version: '1', runtime: driver}\n", inference: "  api_key: ${K}\n" }),
    "E-MAN-003",
    /'inference\.endpoint': missing required field/,
  ],
  [
    "a bad inference.endpoint",
    agent({ artifacts: "  - {name: acme/drv, version: '1', runtime: driver}\n", inference: "  endpoint: http://h\n" }),
    "E-MAN-003",
    /'inference\.endpoint': 'http:\/\/h' is http/,
    8,
  ],
  [
    "both spellings of max_task_reopens",
    agent({ inference: "  max_task_reopens: 2\n", rest: "lifecycle: {max_task_reopens: 0}\n" }),
    "E-MAN-003",
    /'inference\.max_task_reopens': is an older spelling/,
    8,
  ],
  [
    "both spellings of capture",
    `${HEAD}trace:\n  capture: meta\n  include_tool_output: true\n`,
    "E-MAN-003",
    /invalid trace config for 'trace\.include_tool_output'/,
    5,
  ],

  // Context, trace, retain (12, 17, 18)
  [
    "context.max_tokens of 0",
    `${HEAD}context: {max_tokens: 0}\n`,
    "E-MAN-003",
    /invalid inference config for 'context\.max_tokens'/,
    3,
  ],
  [
    "a seed_budget above 1",
    `${HEAD}context: {seed_budget: 1.5}\n`,
    "E-MAN-003",
    /'context\.seed_budget': must be from 0\.0 to 1\.0/,
    3,
  ],
  [
    "a negative seed_overflow_margin",
    `${HEAD}context: {seed_overflow_margin: -0.1}\n`,
    "E-MAN-003",
    /seed_overflow_margin/,
    3,
  ],
  ["a seed_budget that is no number", `${HEAD}context: {seed_budget: .nan}\n`, "E-MAN-003", /seed_budget/, 3],
  [
    "another word of record",
    `${HEAD}context: {record: true}\n`,
    "E-MAN-003",
    /'context\.record': must be one of: on, off; got 'true'/,
    3,
  ],
  [
    "another word of capture",
    `${HEAD}trace: {capture: all}\n`,
    "E-MAN-003",
    /invalid trace config for 'trace\.capture'/,
    3,
  ],
  [
    "a null retain",
    `${HEAD}trace: {retain: }\n`,
    "E-MAN-003",
    /'trace\.retain': is empty; accepted keys: max_sessions, max_age/,
    3,
  ],
  [
    "an empty retain",
    `${HEAD}context: {retain: {}}\n`,
    "E-MAN-003",
    /invalid inference config for 'context\.retain': is empty; accepted keys: max_messages, max_age/,
    3,
  ],
  [
    "a retain that is a number",
    `${HEAD}trace: {retain: 5}\n`,
    "E-MAN-003",
    /'trace\.retain': expected a mapping, got number/,
    3,
  ],
  [
    "an unknown key in retain",
    `${HEAD}trace: {retain: {max_messages: 5}}\n`,
    "E-MAN-003",
    /'trace\.retain': unknown key 'max_messages'; accepted keys: max_sessions/,
    3,
  ],
  ["a retain of 0", `${HEAD}trace: {retain: {max_sessions: 0}}\n`, "E-MAN-003", /'trace\.retain\.max_sessions'/, 3],
  [
    "a retain of text",
    `${HEAD}trace: {retain: {max_sessions: '5'}}\n`,
    "E-MAN-003",
    /'trace\.retain\.max_sessions'/,
    3,
  ],
  [
    "a retain without number",
    `${HEAD}trace: {retain: {max_sessions: }}\n`,
    "E-MAN-003",
    /'trace\.retain\.max_sessions'/,
    3,
  ],
  ["a max_age of 0", `${HEAD}trace: {retain: {max_age: 0d}}\n`, "E-MAN-003", /'trace\.retain\.max_age'.*'0d'/, 3],
  ["a bad max_age", `${HEAD}trace: {retain: {max_age: 1w}}\n`, "E-MAN-003", /'trace\.retain\.max_age'/, 3],

  // Door (10)
  [
    "authentication without scheme",
    `${HEAD}network: {authentication: {}}\n`,
    "E-MAN-003",
    /invalid network config for 'network\.authentication\.scheme': missing required field; must be one of: bearer/,
    3,
  ],
  [
    "another scheme",
    `${HEAD}network: {authentication: {scheme: basic}}\n`,
    "E-MAN-003",
    /unknown scheme 'basic'; must be one of: bearer/,
    3,
  ],
  [
    "a credential called operator",
    `${HEAD}network: {authentication: {scheme: bearer, credentials: {operator: {scopes: [GetTask]}}}}\n`,
    "E-MAN-003",
    /'operator' is reserved/,
    3,
  ],
  [
    "a credential with a bad name",
    `${HEAD}network: {authentication: {scheme: bearer, credentials: {CI: {scopes: [GetTask]}}}}\n`,
    "E-MAN-003",
    /'CI' is not a name/,
    3,
  ],
  [
    "a credential without scopes",
    `${HEAD}network: {authentication: {scheme: bearer, credentials: {ci: }}}\n`,
    "E-MAN-003",
    /'network\.authentication\.credentials\.ci\.scopes': must be a list/,
    3,
  ],
  [
    "a credential with no scope",
    `${HEAD}network: {authentication: {scheme: bearer, credentials: {ci: {scopes: []}}}}\n`,
    "E-MAN-003",
    /scopes': must be a list of at least one/,
    3,
  ],
  [
    "an unknown scope",
    `${HEAD}network: {authentication: {scheme: bearer, credentials: {ci: {scopes: [message/send]}}}}\n`,
    "E-MAN-003",
    /scopes\[0\]': unknown scope 'message\/send'/,
    3,
  ],
  [
    "one scope under two names",
    `${HEAD}network: {authentication: {scheme: bearer, credentials: {ci: {scopes: [stream/watch, murmur.WatchStream]}}}}\n`,
    "E-MAN-003",
    /'murmur\.WatchStream' is listed twice/,
    3,
  ],
  [
    "a scope that is a number",
    `${HEAD}network: {authentication: {scheme: bearer, credentials: {ci: {scopes: [1]}}}}\n`,
    "E-MAN-003",
    /scopes\[0\]'/,
    3,
  ],
  [
    "authentication beside spawn",
    `${HEAD}capabilities: {spawn: {allow: [a/w]}}\nnetwork: {authentication: {scheme: bearer}}\n`,
    "E-MAN-003",
    /'network\.authentication': cannot stand beside/,
    4,
  ],
  ...(["a:80", "http://a", "*.a", "a/b", "", "u@a"].map((host) =>
    [
      `a door host '${host}'`,
      `${HEAD}network: {hosts: ['${host}']}\n`,
      "E-MAN-003",
      /'network\.hosts\[0\]'/,
      3,
    ] as const
  )),
  ...(["null", "*", "a.example", "https://a/", "https://a/p", "ftp://a", "https://u@a"].map((origin) =>
    [
      `an origin '${origin}'`,
      `${HEAD}network: {origins: ['${origin}']}\n`,
      "E-MAN-003",
      /'network\.origins\[0\]'/,
      3,
    ] as const
  )),
  [
    "another word of a2a_compat",
    `${HEAD}network: {a2a_compat: [v0.2]}\n`,
    "E-MAN-003",
    /'network\.a2a_compat\[0\]'/,
    3,
  ],
  ["a2a_compat twice", `${HEAD}network: {a2a_compat: [rest, rest]}\n`, "E-MAN-003", /'rest' is listed twice/, 3],

  // Lifecycle (13)
  [
    "a queue_depth of 0",
    `${HEAD}lifecycle: {queue_depth: 0}\n`,
    "E-MAN-003",
    /invalid lifecycle config for 'lifecycle\.queue_depth'/,
    3,
  ],
  [
    "a delegation deadline of 0",
    `${HEAD}lifecycle: {delegation_deadline_secs: 0}\n`,
    "E-MAN-003",
    /delegation_deadline_secs/,
    3,
  ],

  // Exports (14)
  [
    "files without root",
    `${HEAD}exports: {files: {mode: read-only}}\n`,
    "E-MAN-003",
    /invalid exports config for 'exports\.files\.root': missing required field/,
    3,
  ],
  ["an absolute root", `${HEAD}exports: {files: {root: /etc, mode: read-only}}\n`, "E-MAN-003", /is not relative/, 3],
  [
    "a root with ..",
    `${HEAD}exports: {files: {root: a/../b, mode: read-only}}\n`,
    "E-MAN-003",
    /has a '\.\.' component/,
    3,
  ],
  [
    "files without mode",
    `${HEAD}exports: {files: {root: out}}\n`,
    "E-MAN-003",
    /'exports\.files\.mode': must be read-only; missing/,
    3,
  ],
  [
    "files to be written",
    `${HEAD}exports: {files: {root: out, mode: read-write}}\n`,
    "E-MAN-003",
    /got 'read-write'/,
    3,
  ],
  ...(["0", "10MB", "1.5Gi", "-1", "[1]", "''"].map((size) =>
    [
      `max_bytes: ${size}`,
      `${HEAD}exports: {files: {root: out, mode: read-only, max_bytes: ${size}}}\n`,
      "E-MAN-003",
      /'exports\.files\.max_bytes': must be a size/,
      3,
    ] as const
  )),
  ...(["0", "30S", "1h30m", "true"].map((ttl) =>
    [
      `max_ttl: ${ttl}`,
      `${HEAD}exports: {peer_files: {root: out, max_ttl: ${ttl}}}\n`,
      "E-MAN-003",
      /'exports\.peer_files\.max_ttl': must be a duration/,
      3,
    ] as const
  )),
  ["peer_tasks without accept", `${HEAD}exports: {peer_tasks: {}}\n`, "E-MAN-003", /'exports\.peer_tasks\.accept'/, 3],

  // Control (15)
  [
    "control on a script capsule",
    `${HEAD}control: {settings: [inference.max_tokens]}\n`,
    "E-MAN-003",
    /invalid control config for 'control'/,
    3,
  ],
  [
    "control that is no list",
    agent({ rest: "control: {settings: inference.max_tokens}\n" }),
    "E-MAN-003",
    /'control\.settings': must be a list of strings, got string/,
    8,
  ],
  [
    "control with a number",
    agent({ rest: "control: {secrets: [1]}\n" }),
    "E-MAN-003",
    /'control\.secrets': must be a list of strings/,
    8,
  ],
  [
    "an unknown setting",
    agent({ rest: "control: {settings: [inference.model]}\n" }),
    "E-MAN-003",
    /'control\.settings': unknown entry 'inference\.model'/,
    8,
  ],
  [
    "an agent setting that is none",
    agent({ rest: "control: {agent_settings: [inference.max_tokens]}\n" }),
    "E-MAN-003",
    /'control\.agent_settings': unknown entry/,
    8,
  ],
  [
    "a setting twice",
    agent({ rest: "control: {settings: [inference.max_tokens, ' inference.max_tokens']}\n" }),
    "E-MAN-003",
    /is listed twice/,
    8,
  ],
  [
    "a driver setting without alternates",
    agent({ rest: SELECT }),
    "E-MAN-003",
    /needs at least one entry in inference\.alternates/,
    8,
  ],
  [
    "a secret with a bad name",
    agent({ rest: "control: {secrets: [my_key]}\n" }),
    "E-MAN-003",
    /'my_key' is not a credential name/,
    8,
  ],
  [
    "a secret of no gateway",
    agent({ rest: "control: {secrets: [KEY]}\n" }),
    "E-MAN-003",
    /'KEY' is the gateway\.api_key of no artifact/,
    8,
  ],
  [
    "the primary driver's secret",
    agent({
      artifacts:
        "  - {name: acme/drv, version: '1', runtime: driver, gateway: {endpoint: 'https://h', api_key: '${KEY}'}}\n",
      rest: "control: {secrets: [KEY]}\n",
    }),
    "E-MAN-003",
    /'KEY' is the key of the primary driver/,
    8,
  ],
  [
    "a setting under process",
    `${HEAD}artifacts: [{name: d, version: '1', runtime: driver}]\ninference: {transport: process, driver: {artifact: d}}\ncontrol: {settings: [inference.max_tokens]}\n`,
    "E-MAN-003",
    /needs transport: http/,
    5,
  ],
];

for (const [title, text, code, message, line] of ROWS) {
  Deno.test(`refused: ${title}`, () => {
    assert.throws(() => parseCapsuleManifest(text, "dir/murmur.yaml"), (error) => {
      assert.ok(error instanceof MurError, String(error));
      assert.equal(error.code, code, error.message);
      assert.match(error.message, message);
      assert.ok(error.place !== undefined, "has a place");
      assert.equal(error.place.file, "dir/murmur.yaml");
      if (line !== undefined) assert.equal(error.place.line, line, error.message);
      // deno-lint-ignore no-control-regex
      assert.doesNotMatch(error.message + error.place.text, /[\u0000-\u0008\u000b-\u001f]|hunter2/);
      return true;
    });
  });
}

Deno.test("the first failure in the order of checks is the one that is told", () => {
  const pairs: [string, RegExp][] = [
    // Types before everything else, then name, entries, capabilities, inference, and the rest.
    ["lifecycle: {after_task: x}\n", /YAML syntax error/],
    ["version: '1'\nartifacts: [{}]\n", /missing required field 'name'$/],
    [entry("{name: X}") + "capabilities: {task_io: {}}\n", /artifact declaration/],
    [`${HEAD}config: {}\ncapabilities: {task_io: {}, shell: {}}\n`, /task_io/],
    [`${HEAD}config: {}\ncapabilities: {shell: {}}\n`, /'config'/],
    [`${HEAD}capabilities: {shell: {}, peer_fetch: {}}\n`, /peer_fetch/],
    [`${HEAD}capabilities: {containment: x, plan: {}}\n`, /plan/],
    [`${HEAD}inference: {max_turns: 0, compaction: {threshold: 2}}\n`, /threshold/],
    [`${HEAD}inference: {max_turns: 0}\n`, /max_turns/],
    [`${HEAD}inference: {model: m, driver: {artifact: d}}\ncontext: {max_tokens: 0}\n`, /'d' is not declared/],
    [
      `${HEAD}trace: {capture: x}\nnetwork: {hosts: ['*']}\nlifecycle: {queue_depth: 0}\nexports: {files: {}}\n`,
      /trace/,
    ],
    [`${HEAD}network: {hosts: ['*']}\nlifecycle: {queue_depth: 0}\nexports: {files: {}}\n`, /network/],
    [`${HEAD}lifecycle: {queue_depth: 0}\nexports: {files: {}}\n`, /lifecycle/],
    [`${HEAD}exports: {files: {}}\ncontrol: {settings: [x]}\n`, /exports/],
  ];
  for (const [text, message] of pairs) {
    assert.throws(() => parseCapsuleManifest(text, "murmur.yaml"), { message }, text);
  }
});
