import assert from "node:assert/strict";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { type AggregateHost, chooseAggregateLimits } from "./aggregate_limits.ts";
import { decideContainment } from "./containment_class.ts";
import { launchContainmentWarnings, stagingContainmentWarnings } from "./containment_warnings.ts";
import type { HostReading } from "./host_containment.ts";
import { probed } from "./testing/host_readings.ts";

const FOREIGN: HostReading = { kind: "foreign", platform: "darwin" };
const CGROUP: AggregateHost = { v2Problem: null, v1Problem: null, v1Cpu: true, ioProblem: null, samplingProblem: null };

interface Case {
  readonly host?: HostReading;
  readonly floor?: "advisory" | "sealed";
  readonly capabilities?: string;
  readonly aggregate?: Partial<AggregateHost>;
  readonly unguardable?: readonly string[];
  readonly commands?: boolean;
  readonly nativeTools?: readonly string[];
}

function findings({ host = probed(), floor = "advisory", ...more }: Case) {
  const { capabilities = "{ shell: { allow: [sh] } }", unguardable = [], commands = true } = more;
  const { manifest } = parseCapsuleManifest(`name: a\nversion: "1"\ncapabilities: ${capabilities}\n`, "murmur.yaml");
  const places = { sessionDirectoryInWorkdir: null, unguardable, trusted: unguardable };
  const decision = decideContainment({ manifest, floor, host, places, commands });
  const aggregate = host.kind === "foreign"
    ? chooseAggregateLimits(commands, { untried: "none here" })
    : chooseAggregateLimits(commands, { ...CGROUP, ...more.aggregate });
  return { manifest, host, decision, aggregate, commands, nativeTools: more.nativeTools ?? [], hostReported: false };
}
const codes = (given: Case) => launchContainmentWarnings(findings(given)).map(({ code }) => code);

Deno.test("each tier says what it covers", () => {
  assert.deepEqual(codes({}), ["W-SEC-005"]);
  assert.deepEqual(codes({ floor: "sealed" }), ["W-SEC-005"]);
  assert.deepEqual(codes({ host: probed({ landlock: false }) }), ["W-SEC-002"]);
  assert.deepEqual(codes({ host: FOREIGN }), ["W-SEC-001", "W-SEC-010"]);
  const text = (given: Case) => launchContainmentWarnings(findings(given))[0]!.message;
  assert.match(text({ floor: "sealed" }), /mountns\+pivot_root/);
  assert.ok(!text({ floor: "sealed" }).includes("/proc"));
  assert.match(text({ floor: "sealed", host: probed({ ownProc: false }) }), /\/proc is the host's/);
  assert.match(text({ host: probed({ privateMounts: "denied", sealed: "denied" }) }), /without private mounts/);
  assert.ok(!text({}).includes("without private mounts"));
});

Deno.test("bash beside network rules is warned about only where nothing holds its traffic", () => {
  const capabilities = "{ shell: { allow: [bash] }, network: { allow: [example.com] } }";
  assert.deepEqual(codes({ capabilities, host: FOREIGN }), ["W-SEC-001", "W-SEC-003", "W-SEC-010"]);
  assert.deepEqual(codes({ capabilities }), ["W-SEC-005"]);
  assert.deepEqual(codes({ capabilities: "{ shell: { allow: [bash] } }", host: FOREIGN }), ["W-SEC-001", "W-SEC-010"]);
});

Deno.test("unguarded files and a weaker mechanism are named", () => {
  const given: Case = { unguardable: ["/p/.env"], aggregate: { v2Problem: "no2", v1Problem: "no1" } };
  const warnings = launchContainmentWarnings(findings(given));
  assert.deepEqual(warnings.map(({ code }) => code), ["W-SEC-005", "W-SEC-033", "W-SEC-034"]);
  assert.match(warnings[1]!.message, /\/p\/\.env/);
  assert.match(warnings[2]!.message, /'sampling': cgroup v2: no2; cgroup v1: no1/);
  const none = launchContainmentWarnings(
    findings({ ...given, aggregate: { ...given.aggregate, samplingProblem: "x" } }),
  );
  assert.match(none[2]!.message, /'none'/);
});

Deno.test("a capsule that starts nothing is told nothing", () => {
  const given: Case = { capabilities: "{}", commands: false, unguardable: ["/p/.env"] };
  assert.deepEqual(codes(given), []);
  assert.deepEqual(codes({ ...given, host: FOREIGN }), []);
});

Deno.test("an open restriction of user namespaces is told once, not again to whoever heard it", () => {
  const open = findings({ host: probed({ usernsGrant: "restriction_disabled_host_wide" }) });
  assert.deepEqual(stagingContainmentWarnings(open).map(({ code }) => code), ["W-SEC-013"]);
  assert.deepEqual(stagingContainmentWarnings({ ...open, hostReported: true }), []);
  assert.deepEqual(stagingContainmentWarnings(findings({})), []);
});

Deno.test("a native tool is a program like any other", () => {
  const given: Case = { capabilities: "{}", nativeTools: ["lint", "format"], host: FOREIGN };
  assert.deepEqual(codes(given), ["W-SEC-001", "W-SEC-010"]);
  assert.match(
    launchContainmentWarnings(findings(given))[0]!.message,
    /^of the tools, 'lint', 'format' run natively: no kernel mechanism contains commands here/,
  );
});
