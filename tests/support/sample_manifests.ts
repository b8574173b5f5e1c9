/**
 * Manifests that are valid, for tests: the example of spec manifest 6, and one that writes every key there is.
 *
 * @module
 */

/** The example of spec manifest 6. */
export const EXAMPLE = `name: desk
version: "1.4.0"
artifacts:
  - name: murmur/murmur-driver-anthropic
    version: "1.0.0"
    runtime: driver
    gateway: { endpoint: https://api.provider.example/v1, api_key: "\${PROVIDER_KEY}" }
  - name: acme/ledger
    version: "0.3.1"
    capabilities:
      network: { allow: [https://ledger.acme.example] }
      filesystem: { scope: ledger }
      state: {}
    config: { currency: EUR }
capabilities:
  network: { allow: [https://ledger.acme.example, wiki.acme.example] }
  filesystem: { read_only: [reference] }
  shell: { allow: [bash, jq], strip_env: ["CI_*"], baseline_env: [TZ] }
  spawn: { allow: [local/worker], workdir_snapshot: [local/worker] }
  resources: { workdir_max_bytes: 2147483648 }
  containment: scoped
inference:
  model: some-model
  driver: { artifact: murmur-driver-anthropic, config: { max_retries: 3 } }
  max_turns: 20
  system_prompt_file: prompt.md
context: { max_tokens: 150000 }
lifecycle: { task_acceptance: queue, queue_depth: 4, after_task: sleep, conversation: threaded }
exports:
  files: { root: out/, mode: read-only, max_bytes: 5Mi }
  peer_files: { root: out/handoff, max_ttl: 10m }
  peer_tasks: { accept: true }
trace: { capture: content, retain: { max_sessions: 50, max_age: 14d } }
`;

/** Every key of both manifests but the older spellings and those that exclude one another. */
export const EVERYTHING = `# Every key.
name: desk
version: '1'
mur_version: 0.1.0
runtime: skill
implementation: wasm
execution: static
requires_files: [prompt.md]
build: {entry: main.ts}
registry: {remote_url: 'https://registry.example', default: local}
artifacts:
  - name: acme/primary
    version: '1'
    runtime: driver
    gateway: {endpoint: 'https://a.example', api_key: '\${A_KEY}'}
    capabilities:
      network: {allow: [https://a.example]}
      filesystem: {scope: a}
      state: {store: shared}
  - name: acme/second
    version: '1'
    runtime: driver
    gateway: {endpoint: 'http://127.0.0.1:11434/v1', keyless: true}
  - name: acme/audit
    version: '1'
    runtime: hook
    on_overflow: block
    config: {level: 3, nested: {list: [1, 2.5, true, null]}}
    capabilities:
      network: {allow: []}
      filesystem: {records: true}
      task_io: {read: true}
      conversation: {read: false}
      limits: {instances: 1}
  - {name: acme/tool, version: '1', gateway: {endpoint: 'https://t.example', api_key: '\${T_KEY}', keyless: false}}
  - {name: style, runtime: skill, source: ./style, local_source: true, prompt_payload: true}
capabilities:
  network: {allow: [https://a.example, 'h:80'], unix_sockets: true}
  peer_fetch: {allow: [peer.example]}
  filesystem: {scope: work, workdir_exec: true, read_only: [reference, '']}
  shell:
    allow: [bash, jq]
    strip_env: ['CI_*']
    baseline_env: [TZ]
    interpreter_runtime: [{binary: bash, dirs: [{path: /usr/lib, list_dir: false}]}]
    staged_runtime: [{binary: jq, source_path: /opt/jq, pin: '1.7'}]
  spawn: {allow: [local/worker], workdir_snapshot: [local/worker]}
  env: {allow: [LANG]}
  limits: {memory_bytes: 1, table_elements: 2, instances: 3, deadline_seconds: 4}
  resources: {max_processes: 1, max_open_files: 2, max_file_size_bytes: 3, cpu_seconds: 4, memory_bytes: 5, cgroup_memory_bytes: 6, cgroup_pids_max: 7, cgroup_cpu_percent: 8, cgroup_io_bytes_per_sec: 9, workdir_max_bytes: 10}
  state: {store: shared}
  conversation: {read: true}
  plan: {submit: true}
  install: {skill: ['*'], tool: [acme/*]}
  containment: advisory
inference:
  transport: http
  model: m1
  command: harness
  driver: {artifact: primary, config: {b: 1, a: {x: y}, '2': z}}
  max_turns: 3
  max_tokens: 4
  max_session_tokens: 5
  tool_refresh: immediate
  system_prompt_artifact: style
  compaction: {threshold: 0.5, model: m0, system_prompt: ' keep ', dump_summaries: true}
  alternates: [{name: fast, model: m2, driver: {artifact: acme/second, config: }}]
context: {max_tokens: 9, record: off, record_store: ' other ', seed_budget: 0, seed_overflow_margin: 1.0, retain: {max_messages: 2, max_age: 60}}
observability:
  otel_endpoint: http://127.0.0.1:4318
  eval:
    dataset_id: d
    scorers:
      - {type: exit_ok}
      - {type: max_turns, name: turns, max: 5}
      - {type: max_tokens}
      - {type: tool_sequence, expected: [jq]}
      - {type: llm_judge}
trace: {capture: none, retain: {max_age: 1h}}
network:
  internal_port: 0
  hosts: [Desk.Example, '[::1]']
  origins: ['https://App.example:443', 'http://localhost:5173']
  a2a_compat: [v0.3, rest]
lifecycle: {task_acceptance: queue, after_task: sleep, queue_depth: 7, input_timeout_secs: 0, conversation: threaded, max_task_reopens: 0, shell_grace_secs: 0, delegation_deadline_secs: 9}
exports:
  files: {root: out, mode: read-only, max_bytes: 1Ki}
  peer_files: {root: ./out, max_ttl: 900, max_bytes: 2048}
  peer_tasks: {accept: false}
control: {settings: [inference.max_tokens, inference.driver], secrets: [T_KEY], agent_settings: [inference.driver]}
`;

/** Keys of an artifact manifest that a capsule manifest does not have. */
export const ARTIFACT = `name: page-tool
version: "0.3.0"
runtime: tool
implementation: wasm
description: Fetches a page
tags: [web, 5, text]
input_schema:
  type: object
  required: [url]
  properties:
    url: {type: string}
output_schema: '{"type":"string"}'
upstream_auth: {header: x-api-key, value: '{key}'}
binding: on-shell
execution_mode: blocking
commit_policy: deny
`;
