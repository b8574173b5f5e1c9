import assert from "node:assert/strict";
import { lowerCapabilities } from "../capability_policy.ts";
import { backgroundCommandWarning, manifestWarnings, nativeToolWarnings } from "./manifest_warnings.ts";
import { parseCapsuleManifest } from "./parse_capsule_manifest.ts";

const HEAD = "name: desk\nversion: '1.0'\n";

function read(text: string) {
  return parseCapsuleManifest(HEAD + text, "murmur.yaml").manifest;
}
function warnings(text: string, afterTask?: "exit" | "sleep") {
  const manifest = read(text);
  return manifestWarnings(manifest, lowerCapabilities(manifest), afterTask === undefined ? {} : { afterTask });
}
function codes(text: string): string[] {
  return warnings(text).map(({ code }) => code);
}

Deno.test("a manifest that grants plainly has no findings", () => {
  assert.deepEqual(codes(""), []);
  assert.deepEqual(
    codes(
      "capabilities: {network: {allow: [a.example]}, shell: {allow: [jq]}, env: {allow: [LANG]}}\nartifacts: [{name: t, version: '1', capabilities: {network: {allow: ['https://a.example']}, filesystem: {scope: s}, state: {}}}]\n",
    ),
    [],
  );
});

Deno.test("capsule-wide findings each have their code", () => {
  assert.deepEqual(
    codes(
      "capabilities:\n  shell:\n    allow: [python3, bash]\n    interpreter_runtime:\n" +
        "      - {binary: python3, dirs: [{path: /usr/lib/a, list_dir: true}, {path: /usr/lib/b, list_dir: false}]}\n" +
        "      - {binary: bash, dirs: [{path: /opt, list_dir: false}]}\n" +
        "  filesystem: {workdir_exec: true, read_only: [tests]}\n  state: {}\n  conversation: {read: false}\n  env: {allow: [MY_TOKEN]}\n",
    ),
    ["W-SEC-009", "W-SEC-009", "W-SEC-011", "W-SEC-014", "W-SEC-016", "W-SEC-017", "W-SEC-017", "W-SEC-024"],
  );
  const [grant] = warnings(
    "capabilities: {shell: {allow: [jq], interpreter_runtime: [{binary: jq, dirs: [{path: /a, list_dir: true}, {path: /b, list_dir: false}]}]}}\n",
  );
  assert.match(grant!.message, /\[\/a \(list_dir\), \/b \(no-list\)\]/);
  assert.equal(grant!.source, "capsule-runtime");
});

Deno.test("credential-shaped names are told once, more of them under after_task: sleep", () => {
  const text = "capabilities: {env: {allow: [A_TOKEN, LANG, A_TOKEN, DB_DSN]}}\n";
  const [warning, ...others] = warnings(text);
  assert.equal(others.length, 0);
  assert.match(warning!.message, /'A_TOKEN', 'DB_DSN'/);
  assert.ok(warnings(text, "sleep")[0]!.message.length > warning!.message.length);
  // What the backstop strips is refused, not warned of.
  assert.deepEqual(codes("capabilities: {env: {allow: [OPENAI_API_KEY]}}\n"), []);
});

Deno.test("entries: what is inert, what is dropped, by role", () => {
  const inert =
    "shell: {allow: [x]}, spawn: {}, env: {}, limits: {}, resources: {}, containment: sealed, peer_fetch: {allow: [h]}, plan: {submit: true}";
  const hook = warnings(
    `artifacts: [{name: h, version: '1', runtime: hook, capabilities: {${inert}, network: {allow: [x.example]}}}]\n`,
  );
  assert.deepEqual(hook.map(({ code }) => code), ["W-SEC-006"]);
  for (const block of ["shell", "spawn", "env", "limits", "resources", "containment", "peer_fetch", "plan"]) {
    assert.ok(hook[0]!.message.includes(`capabilities.${block}`), block);
  }
  for (const role of ["tool", "driver"]) {
    const found = warnings(
      `capabilities: {network: {allow: ['https://a.example']}}\nartifacts: [{name: t, version: '1', runtime: ${role}, capabilities: {${inert}, network: {allow: [a.example, 'https://a.example', b.example]}}}]\n`,
    );
    assert.deepEqual(found.map(({ code }) => code), ["W-SEC-007", "W-SEC-008"]);
    assert.match(found[0]!.message, /\(a\.example, b\.example\)/);
  }
  assert.match(
    warnings(
      "artifacts: [{name: t, version: '1', capabilities: {filesystem: {read_only: [a], workdir_exec: false}, network: {unix_sockets: true}}}]\n",
    )[0]!.message,
    /capabilities\.network\.unix_sockets, capabilities\.filesystem\.workdir_exec, capabilities\.filesystem\.read_only/,
  );
});

Deno.test("a native tool's grant and config are told to do nothing", () => {
  const entries = read(
    "artifacts:\n  - {name: a, version: '1', capabilities: {filesystem: {scope: s}}, config: {x: 1}}\n  - {name: b, version: '1'}\n",
  ).artifacts;
  assert.deepEqual(nativeToolWarnings(entries[0]!).map(({ code }) => code), ["W-SEC-008", "W-SEC-015"]);
  assert.deepEqual(nativeToolWarnings(entries[1]!), []);
});

Deno.test("a capsule with commands that ends with its task is told where their outcome goes", () => {
  const shell = "capabilities: {shell: {allow: [jq]}}\n";
  assert.equal(backgroundCommandWarning(read(shell))?.code, "W-SEC-022");
  assert.equal(backgroundCommandWarning(read("")), null);
  assert.equal(
    backgroundCommandWarning(read(`${shell}lifecycle: {task_acceptance: queue, after_task: sleep}\n`)),
    null,
  );
  assert.equal(backgroundCommandWarning(read(shell), { taskAcceptance: "queue", afterTask: "sleep" }), null);
});
