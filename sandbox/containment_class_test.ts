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
    manifest("{ shell: { allow: [bash] }, network: { allow: [example.com] }, resources: { max_processes: 4 } }"),
    "advisory",
  );
  assert.deepEqual(launchWarnings.map(({ code }) => code), ["W-SEC-001", "W-SEC-003", "W-SEC-034"]);
  assert.match(launchWarnings[2]!.message, /capabilities\.resources\.max_processes/);
});
