import assert from "node:assert/strict";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { decideContainment } from "./containment_class.ts";

function manifest(capabilities: string) {
  return parseCapsuleManifest(`name: a\nversion: "1"\ncapabilities: ${capabilities}\n`, "murmur.yaml").manifest;
}

Deno.test("no floor above advisory is met, and the refusal says why", () => {
  for (const floor of ["scoped", "sealed"] as const) {
    const decision = decideContainment(manifest("{ containment: scoped }"), floor);
    assert.equal(decision.achieved, "advisory");
    assert.equal(decision.refusal?.code, "E-CAP-003");
    assert.match(decision.refusal.message, new RegExp(`'${floor}'.*'advisory'`));
    assert.equal(decision.refusal.place?.line, 3);
  }
});

Deno.test("workdir_exec is named before any reason of the host", () => {
  const decision = decideContainment(manifest("{ filesystem: { workdir_exec: true } }"), "scoped");
  assert.match(decision.shortfall ?? "", /workdir_exec/);
});

Deno.test("an advisory floor is met without a word when nothing can start commands", () => {
  const decision = decideContainment(manifest("{}"), "advisory");
  assert.equal(decision.refusal, null);
  assert.deepEqual(decision.launchWarnings, []);
});

Deno.test("allowed commands are warned about with what is not enforced", () => {
  const { launchWarnings } = decideContainment(
    manifest("{ shell: { allow: [bash] }, network: { allow: [example.com] } }"),
    "advisory",
    { unguarded: ["/p/murmur.yaml"] },
  );
  assert.deepEqual(launchWarnings.map(({ code }) => code), ["W-SEC-001", "W-SEC-003", "W-SEC-033", "W-SEC-034"]);
  assert.match(launchWarnings[2]!.message, /\/p\/murmur\.yaml/);
});

Deno.test("a native tool is a program like any other", () => {
  const facts = { nativeTools: ["lint", "format"], unguarded: ["/p/.env"] };
  const { launchWarnings, aggregateRefusal } = decideContainment(
    manifest("{ resources: { cgroup_pids_max: 4 } }"),
    "advisory",
    facts,
  );
  assert.deepEqual(launchWarnings.map(({ code }) => code), ["W-SEC-001", "W-SEC-033", "W-SEC-034"]);
  assert.match(
    launchWarnings[0]!.message,
    /^of the tools, 'lint', 'format' run natively: no kernel mechanism contains commands here/,
  );
  assert.equal(aggregateRefusal?.code, "E-RUN-012");
});

Deno.test("a declared limit of all commands together is refused, since no cgroup holds it", () => {
  const declared = "resources: { cgroup_pids_max: 4 }";
  const refusal = decideContainment(manifest(`{ shell: { allow: [sh] }, ${declared} }`), "advisory").aggregateRefusal;
  assert.equal(refusal?.code, "E-RUN-012");
  assert.match(refusal.message, /cgroup_pids_max/);
  assert.equal(decideContainment(manifest(`{ ${declared} }`), "advisory").aggregateRefusal, null);
  const each = "{ shell: { allow: [sh] }, resources: { max_processes: 4 } }";
  assert.equal(decideContainment(manifest(each), "advisory").aggregateRefusal, null);
});
