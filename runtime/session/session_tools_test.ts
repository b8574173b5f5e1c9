import assert from "node:assert/strict";
import { parseArtifactManifest } from "../../artifact/manifest/artifact_manifest.ts";
import { DispatchRefusal } from "../agent/tool_dispatch.ts";
import type { ComponentRuntime, ComponentSpec } from "../component/component_runtime.ts";
import { FrameLog } from "./frame_log.ts";
import { type RuntimeTool, SessionTools, toolRun } from "./session_tools.ts";

function installed(name: string, rest: string, skillText: string | null = null) {
  return { name, skillText, manifest: parseArtifactManifest(`name: ${name}\nversion: "1"\n${rest}\n`, name) };
}

function spec(name: string, role: ComponentSpec["role"]): ComponentSpec {
  return { name, role } as ComponentSpec;
}

function tools(runtimeTools: ReadonlyMap<string, RuntimeTool> = new Map()): SessionTools {
  return new SessionTools({
    installed: [
      installed("wasm-tool", "runtime: tool"),
      installed("native-tool", "runtime: tool\nimplementation: native"),
      installed("stray-native", "runtime: tool\nimplementation: native"),
      installed("bash", "runtime: tool\nimplementation: native"),
      installed("guide", "runtime: skill", "# Guide"),
      installed("pulled", "runtime: skill", "# Pulled"),
      installed("driver", "runtime: driver"),
    ],
    allowlist: new Set(["wasm-tool", "native-tool"]),
    shellAllow: ["bash"],
    specs: new Map([["wasm-tool", spec("wasm-tool", "tool")], ["driver", spec("driver", "driver")]]),
    pulledSkills: new Set(["pulled"]),
    components: {} as ComponentRuntime,
    commands: {
      shell: () => assert.fail(),
      step: () => assert.fail(),
      native: () => assert.fail(),
      describeShell: () => assert.fail(),
    },
    runtimeTools,
    frames: new FrameLog(),
    requestInput: () => assert.fail(),
    output: () => {},
  });
}

Deno.test("each kind of tool is found in its order", () => {
  const session = tools();
  for (
    const [name, kind] of [
      ["wasm-tool", "wasm"],
      ["native-tool", "native"],
      ["bash", "shell"],
      ["guide", "skill"],
    ]
  ) assert.equal(session.resolve(name!).kind, kind, name);
});

Deno.test("what is not declared cannot be called: unknown names, drivers, binaries outside the allow list", () => {
  for (const name of ["nope", "driver", "stray-native", "sh", "", "../bash", "__proto__", "constructor"]) {
    assert.throws(
      () => tools().resolve(name),
      new DispatchRefusal(`tool '${name}' is not declared in manifest allowlist`),
    );
  }
});

Deno.test("a tool the runtime provides to this session answers its reserved name, ahead of everything else", () => {
  const run: RuntimeTool = () => assert.fail();
  const session = tools(new Map([["delegate-task", run], ["bash", run]]));
  assert.deepEqual(session.resolve("delegate-task"), { kind: "runtime", inputSchema: null, run });
  assert.equal(session.resolve("bash").kind, "shell");
});

Deno.test("a runtime-provided tool without its grant names the declaration that is missing", () => {
  assert.throws(() => tools().resolve("delegate-task"), /capabilities\.spawn\.allow/);
});

Deno.test("a skill the operator declared is trusted, a pulled one is not", () => {
  assert.equal(tools().resolve("guide").skillOrigin, "operator");
  assert.equal(tools().resolve("pulled").skillOrigin, "runtime");
});

Deno.test("a result shows data, else the summary, else says that there is none", () => {
  const result = {
    status: "passed",
    summary: null,
    data: null,
    dataPath: null,
    truncated: false,
    metadata: [],
  } as const;
  assert.equal(toolRun({ ...result, data: "d", summary: "s" }).text, "d");
  assert.equal(toolRun({ ...result, summary: "s" }).text, "s");
  assert.equal(toolRun(result).text, "tool returned no data");
  assert.equal(toolRun({ ...result, status: "failed" }).passed, false);
});
