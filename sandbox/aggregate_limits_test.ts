import assert from "node:assert/strict";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { type AggregateHost, aggregateRefusal, chooseAggregateLimits, watchedLimits } from "./aggregate_limits.ts";

const ALL: AggregateHost = {
  v2Problem: null,
  v1Problem: null,
  v1Cpu: true,
  ioProblem: null,
  samplingProblem: null,
};
const choose = (more: Partial<AggregateHost> = {}) => chooseAggregateLimits(true, { ...ALL, ...more });
const NO_V2 = { v2Problem: "no2", ioProblem: "no io" };
const NO_CGROUP = { ...NO_V2, v1Problem: "no1" };

Deno.test("the first mechanism that works is taken, and each reason before it is told", () => {
  const told = (more: Partial<AggregateHost>) => {
    const { mechanism, reason, io } = choose(more);
    return [mechanism, reason, io.status];
  };
  assert.deepEqual(told({}), ["cgroup-v2", null, "enforced"]);
  assert.deepEqual(told({ ioProblem: "no io" }), ["cgroup-v2", null, "unavailable"]);
  assert.deepEqual(told(NO_V2), ["cgroup-v1", "cgroup v2: no2", "unavailable"]);
  assert.deepEqual(told(NO_CGROUP), ["sampling", "cgroup v2: no2; cgroup v1: no1", "unavailable"]);
  assert.deepEqual(told({ ...NO_CGROUP, samplingProblem: "no /proc" }), [
    "none",
    "cgroup v2: no2; cgroup v1: no1; sampling: no /proc",
    "unavailable",
  ]);
});

Deno.test("a capsule without commands needs none, and where nothing is tried the reason says so", () => {
  assert.deepEqual(chooseAggregateLimits(false, ALL).mechanism, "not-required");
  assert.equal(chooseAggregateLimits(false, ALL).io.status, "not-required");
  const elsewhere = chooseAggregateLimits(true, { untried: "no groups" });
  assert.deepEqual([elsewhere.mechanism, elsewhere.reason, elsewhere.io.reason], ["none", "no groups", "no groups"]);
});

Deno.test("only a written limit that no cgroup holds is refused, each named", () => {
  const manifest = (resources: string) =>
    parseCapsuleManifest(`name: a\nversion: "1"\ncapabilities:\n  resources: ${resources}\n`, "murmur.yaml").manifest;
  const refused = (resources: string, more: Partial<AggregateHost>, linux = true) =>
    aggregateRefusal(manifest(resources), choose(more), linux)?.message ?? null;
  const pids = "{ cgroup_pids_max: 4 }";
  assert.equal(refused(pids, {}), null);
  assert.equal(refused(pids, NO_V2), null);
  assert.match(
    refused(pids, NO_CGROUP)!,
    /^capabilities\.resources\.cgroup_pids_max: .*could be created.*\(cgroup v2: no2/,
  );
  assert.equal(refused(pids, NO_CGROUP, false), null);
  assert.equal(refused("{ cgroup_cpu_percent: 50 }", NO_V2), null);
  assert.match(refused("{ cgroup_cpu_percent: 50 }", { ...NO_V2, v1Cpu: false })!, /cgroup_cpu_percent/);
  assert.match(
    refused("{ cgroup_memory_bytes: 9, cgroup_cpu_percent: 5 }", NO_CGROUP)!,
    /cgroup_memory_bytes, .*cgroup_cpu/,
  );
  assert.equal(refused("{ cgroup_io_bytes_per_sec: 9 }", NO_CGROUP), null, "best-effort everywhere");
  assert.equal(refused("{ max_processes: 4 }", NO_CGROUP), null);
  assert.equal(aggregateRefusal(manifest(pids), chooseAggregateLimits(false, ALL), true), null);
  const error = aggregateRefusal(manifest(pids), choose(NO_CGROUP), true)!;
  assert.deepEqual([error.code, error.place?.line], ["E-RUN-012", 4]);
});

Deno.test("memory of one process is always watched; what all share only where no cgroup holds it", () => {
  const limits = parseCapsuleManifest('name: a\nversion: "1"\n', "murmur.yaml").manifest.capabilities.resources;
  assert.deepEqual([...watchedLimits(limits, choose()).keys()], ["memory_bytes"]);
  assert.deepEqual([...watchedLimits(limits, choose(NO_V2)).keys()], ["memory_bytes"]);
  assert.deepEqual([...watchedLimits(limits, choose(NO_CGROUP))], [
    ["memory_bytes", limits.memoryBytes],
    ["cgroup_memory_bytes", limits.cgroupMemoryBytes],
    ["cgroup_pids_max", limits.cgroupPidsMax],
  ]);
});
