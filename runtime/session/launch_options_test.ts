import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import type { SpawnedLaunch } from "../delegation/spawned_launch.ts";
import {
  containmentFlag,
  lifecycleFlags,
  refuseExclusiveFlags,
  refuseForeignLaunch,
  strongerClass,
} from "./launch_options.ts";

function code(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    assert.ok(error instanceof MurError, String(error));
    return error.code;
  }
  return "none";
}

Deno.test("--containment takes the three classes and nothing else", () => {
  assert.equal(containmentFlag("sealed"), "sealed");
  assert.equal(containmentFlag(null), null);
  for (const value of ["Sealed", "full", "", " scoped"]) {
    assert.equal(code(() => containmentFlag(value)), "E-IO-003", value);
  }
});

Deno.test("the stronger class wins in either order", () => {
  assert.equal(strongerClass("advisory", "sealed"), "sealed");
  assert.equal(strongerClass("sealed", "scoped"), "sealed");
  assert.equal(strongerClass(null, "scoped"), "scoped");
  assert.equal(strongerClass(null, null), null);
});

Deno.test("lifecycle flags are judged by their words", () => {
  assert.deepEqual(lifecycleFlags({ taskAcceptance: "queue", afterTask: null }), {
    taskAcceptance: "queue",
    afterTask: null,
  });
  assert.equal(code(() => lifecycleFlags({ taskAcceptance: "many", afterTask: null })), "E-IO-003");
  assert.equal(code(() => lifecycleFlags({ taskAcceptance: null, afterTask: "stay" })), "E-IO-003");
});

Deno.test("a launch in a formation is refused, and as a child by who did not take it; a blank variable is none", () => {
  const launch = (values: Record<string, string>, spawned: SpawnedLaunch | null = null) =>
    code(() => refuseForeignLaunch({ env: { get: (name) => values[name] }, spawned }));
  const taken: SpawnedLaunch = { approval: null, handle: null, lifeline: null, snapshot: null };
  assert.equal(launch({}), "none");
  assert.equal(launch({ MURMUR_SPAWNER: "  " }), "none");
  assert.equal(launch({ MURMUR_SPAWNER: "{}" }), "E-RUN-020");
  assert.equal(launch({ MURMUR_SPAWNER: "{}", MURMUR_SPAWNER_LIFELINE: "3" }, taken), "none");
  for (const spawned of [null, taken]) {
    assert.equal(launch({ MURMUR_FORMATION_ID: "frm_1" }, spawned), "E-RUN-044");
    assert.equal(launch({ MURMUR_FORMATION_PEERS: "a=b" }, spawned), "E-RUN-046");
  }
});

Deno.test("the value of a launcher's variable is not shown", () => {
  try {
    const env = { get: (name: string) => name === "MURMUR_SPAWNER" ? "very-secret" : undefined };
    refuseForeignLaunch({ env, spawned: null });
    assert.fail("not refused");
  } catch (error) {
    assert.ok(error instanceof MurError && !error.message.includes("very-secret"));
  }
});

Deno.test("--resume and --context exclude each other", () => {
  assert.equal(code(() => refuseExclusiveFlags({ resume: "", contextId: "ctx" })), "E-RUN-015");
  assert.equal(code(() => refuseExclusiveFlags({ resume: "", contextId: null })), "none");
});
