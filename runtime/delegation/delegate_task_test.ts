import assert from "node:assert/strict";
import { parseArtifactManifest } from "../../artifact/manifest/artifact_manifest.ts";
import {
  type DelegateTaskGrant,
  delegateTaskManifest,
  delegateTaskSchema,
  formatDelegateTaskResult,
  readDelegateTaskCall,
} from "./delegate_task.ts";

const GRANT: DelegateTaskGrant = { allow: ["local/worker", "team/critic"], snapshots: ["team/critic"] };

Deno.test("the model can name the granted capsules, by their bare names in order, and no other", () => {
  const { properties, required } = delegateTaskSchema(GRANT) as {
    properties: { capsule: { enum: string[] } };
    required: string[];
  };
  assert.deepEqual(properties.capsule.enum, ["worker", "critic"]);
  assert.deepEqual(required, ["capsule", "version", "task"]);
});

Deno.test("the tool's manifest is one a session can read, and says which capsules start on a copy", () => {
  const manifest = parseArtifactManifest(delegateTaskManifest(GRANT), "tools/delegate-task/murmur.yaml");
  assert.deepEqual(
    [manifest.name, manifest.version, manifest.role, manifest.implementation],
    ["delegate-task", "0.0.0", "tool", "native"],
  );
  assert.deepEqual(manifest.inputSchema, delegateTaskSchema(GRANT));
  const sentence =
    /(\w+) starts with a copy of this capsule's work folder as it is when the call is made, and nothing /g;
  assert.deepEqual([...manifest.description!.matchAll(sentence)].map(([, name]) => name), ["critic"]);
  assert.doesNotMatch(delegateTaskManifest({ ...GRANT, snapshots: [] }), /copy of this capsule/);
});

Deno.test("a call names a granted capsule, which is asked for by its full name", () => {
  const call = { capsule: "critic", version: "1.2.0", task: " look " };
  assert.deepEqual(readDelegateTaskCall(call, GRANT), { ...call, capsule: "team/critic" });
  for (
    const [input, reason] of [
      [{ ...call, capsule: "team/critic" }, /^capabilities\.spawn\.allow: it does not hold 'team\/critic'/],
      [{ ...call, capsule: "other" }, /^capabilities\.spawn\.allow: .* it holds worker, critic$/],
      [{ ...call, capsule: 1 }, /^capsule: /],
      [{ ...call, version: "" }, /^version: /],
      [{ ...call, version: "1.0.0\r\nx: y" }, /^version: must be an exact version; the version holds/],
      [{ ...call, version: "../1.0.0" }, /^version: /],
      [{ ...call, version: "1".repeat(100_000) }, /^version: .{0,100}$/],
      [{ ...call, version: 1 }, /^version: /],
      [{ ...call, task: " " }, /^task: /],
      [{ ...call, task: ["x"] }, /^task: /],
    ] as const
  ) assert.match(readDelegateTaskCall(input, GRANT) as string, reason);
});

Deno.test("a result says how far the call got: started with the child's folder, failed with why", () => {
  const common = { capsule: "local/worker", version: "1.0.0" };
  assert.deepEqual(
    JSON.parse(formatDelegateTaskResult({
      ...common,
      delegationId: "dlg_1",
      sessionId: "ses_1",
      end: { status: "started", workdir: "/w" },
    })),
    {
      delegation_id: "dlg_1",
      session_id: "ses_1",
      capsule: "worker",
      version: "1.0.0",
      status: "started",
      child_workdir: "/w",
    },
  );
  assert.deepEqual(
    JSON.parse(formatDelegateTaskResult({
      ...common,
      delegationId: null,
      sessionId: null,
      end: { status: "failed", reason: "no disk" },
    })),
    { delegation_id: "", session_id: "", capsule: "worker", version: "1.0.0", status: "failed", output: "no disk" },
  );
});
