import assert from "node:assert/strict";
import fc from "fast-check";
import { CONTAINMENT_CLASSES, type ContainmentClass } from "../artifact/manifest/capsule_manifest.ts";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import {
  classOfTier,
  type ContainmentBlocker,
  type ContainmentQuestion,
  decideContainment,
  egressBlocker,
  egressRefusal,
  exportSymlinks,
  hostObstacles,
  meetsClass,
  obstacleOf,
} from "./containment_class.ts";
import type { HostReading } from "./host_containment.ts";
import type { HostProbe } from "./host_probe.ts";
import { probed } from "./testing/host_readings.ts";

function manifest(capabilities = "{}") {
  return parseCapsuleManifest(`name: a\nversion: "1"\ncapabilities: ${capabilities}\n`, "murmur.yaml").manifest;
}

const FOREIGN: HostReading = { kind: "foreign", platform: "darwin" };

const PLACES = { sessionDirectoryInWorkdir: null, unguardable: [], trusted: [] };
const decide = (floor: ContainmentClass, host: HostReading, more: Partial<ContainmentQuestion> = {}) =>
  decideContainment({ manifest: manifest(), floor, host, places: PLACES, commands: true, ...more });

const NO_ROOT = { sealed: "pivot-denied" } as const;
const NO_MOUNTS = { sealed: "mount-denied", privateMounts: "mount-denied" } as const;
const NO_LANDLOCK = { landlock: false, landlockAbi: 0 } as const;

Deno.test("tier and class follow the table of hosts and floors", () => {
  const exec = manifest("{ filesystem: { workdir_exec: true } }");
  const rows: readonly (readonly [HostReading, ContainmentClass, boolean, string, ContainmentClass, boolean])[] = [
    // host, declared, workdir_exec → applied, achieved, refused
    [probed(), "sealed", false, "sealed", "sealed", false],
    [probed(), "scoped", false, "full", "scoped", false],
    [probed(), "advisory", false, "full", "scoped", false],
    [probed(), "advisory", true, "full", "advisory", false],
    [probed(NO_ROOT), "advisory", false, "full", "scoped", false],
    [probed(NO_ROOT), "scoped", false, "full", "scoped", false],
    [probed(NO_ROOT), "sealed", false, "full", "scoped", true],
    [probed(NO_MOUNTS), "advisory", false, "full", "advisory", false],
    [probed(NO_MOUNTS), "scoped", false, "full", "advisory", true],
    [probed(), "scoped", true, "full", "advisory", true],
    [probed(), "sealed", true, "sealed", "advisory", true],
    [probed(NO_LANDLOCK), "advisory", false, "seccomp", "advisory", false],
    [probed(NO_LANDLOCK), "advisory", true, "seccomp", "advisory", false],
    [probed(NO_LANDLOCK), "scoped", false, "seccomp", "advisory", true],
    [FOREIGN, "advisory", false, "env", "advisory", false],
    [FOREIGN, "scoped", false, "env", "advisory", true],
  ];
  for (const [host, floor, workdirExec, tier, achieved, refused] of rows) {
    const decision = decide(floor, host, workdirExec ? { manifest: exec } : {});
    const label = JSON.stringify([host, floor, workdirExec]);
    assert.deepEqual([decision.tier, decision.achieved, decision.refusal !== null], [tier, achieved, refused], label);
    assert.equal(decision.refusal?.code ?? "E-CAP-003", "E-CAP-003");
  }
});

Deno.test("a host whose AppArmor withholds user namespaces composes no root, whatever the probe said", () => {
  assert.equal(decide("sealed", probed({ usernsGrant: "withheld" })).hostTier, "full");
  for (const usernsGrant of ["apparmor_absent", "restriction_disabled_host_wide", "profile_confining"] as const) {
    assert.equal(decide("sealed", probed({ usernsGrant })).tier, "sealed");
  }
});

Deno.test("the refusal names both classes, the reason and the place of the declaration", () => {
  const declared = manifest("{ containment: scoped }");
  const { refusal, shortfall } = decide("scoped", FOREIGN, { manifest: declared });
  assert.equal(
    refusal?.message,
    `declared containment class 'scoped' is not achievable on this host (achieved: 'advisory'): ${shortfall}`,
  );
  assert.equal(refusal.place?.line, 3);
  assert.ok(refusal.hint !== undefined);
});

Deno.test("each failing probe is blamed by its own blocker, AppArmor before what follows from it", () => {
  const rows: readonly (readonly [ContainmentClass, HostReading, ContainmentBlocker | null])[] = [
    ["advisory", FOREIGN, null],
    ["scoped", FOREIGN, "landlock_unavailable"],
    ["sealed", FOREIGN, "not_linux"],
    ["scoped", probed(), null],
    ["sealed", probed(), null],
    ["scoped", probed(NO_LANDLOCK), "landlock_unavailable"],
    ["sealed", probed(NO_LANDLOCK), "landlock_unavailable"],
    ["scoped", probed(NO_MOUNTS), "mount_denied"],
    ["scoped", probed({ sealed: "denied", privateMounts: "denied" }), "namespace_creation_denied"],
    ["scoped", probed({ sealed: "pivot-denied", privateMounts: "mount-denied" }), "mount_denied"],
    ["scoped", probed({ sealed: "unsupported", privateMounts: "unsupported" }), "kernel_unsupported"],
    ["scoped", probed({ sealed: "map-denied", privateMounts: "map-denied" }), "id_map_denied"],
    ["scoped", probed({ ...NO_MOUNTS, usernsGrant: "withheld" }), "app_armor_profile_missing"],
    ["scoped", probed(NO_ROOT), null],
    ["sealed", probed({ sealed: "denied" }), "namespace_creation_denied"],
    ["sealed", probed({ sealed: "map-denied" }), "id_map_denied"],
    ["sealed", probed({ sealed: "mount-denied" }), "mount_denied"],
    ["sealed", probed({ sealed: "pivot-denied" }), "pivot_denied"],
    ["sealed", probed({ sealed: "unsupported" }), "kernel_unsupported"],
    ["sealed", probed({ sealed: "denied", usernsGrant: "withheld" }), "app_armor_profile_missing"],
    ["sealed", probed({ sealed: "denied", ...NO_LANDLOCK }), "namespace_creation_denied"],
  ];
  for (const [floor, host, blocker] of rows) {
    assert.equal(obstacleOf(host, floor)?.blocker ?? null, blocker, JSON.stringify([floor, host]));
  }
  assert.match(
    obstacleOf(probed({ sealed: "denied", usernsGrant: "withheld" }), "sealed")!.remedy!,
    /sudo mur setup/,
  );
});

Deno.test("every obstacle of a host is listed once", () => {
  assert.deepEqual(hostObstacles(probed()), []);
  assert.deepEqual(
    hostObstacles(probed({ sealed: "denied", privateMounts: "denied", ...NO_LANDLOCK })).map((each) => each.blocker),
    [
      "landlock_unavailable",
      "namespace_creation_denied",
    ],
  );
  assert.deepEqual(hostObstacles(FOREIGN).map((each) => each.blocker), ["landlock_unavailable", "not_linux"]);
});

Deno.test("what no host can satisfy is told before any reason of the host, in one order", () => {
  const places = { sessionDirectoryInWorkdir: "/w/.murmur", unguardable: ["/w/.env"], trusted: ["/w/.env"] };
  const exec = manifest("{ filesystem: { workdir_exec: true } }");
  assert.match(decide("sealed", FOREIGN, { places, manifest: exec }).shortfall!, /workdir_exec/);
  assert.match(decide("sealed", FOREIGN, { places }).shortfall!, /\/w\/\.murmur/);
  const { shortfall, refusal } = decide("scoped", probed(), { places: { ...places, sessionDirectoryInWorkdir: null } });
  assert.match(shortfall!, /\/w\/\.env/);
  assert.match(refusal!.hint!, /--workdir/);
});

Deno.test("trusted files count only beside commands; without private mounts none of them is held", () => {
  const places = { sessionDirectoryInWorkdir: null, unguardable: ["/w/link"], trusted: ["/w/link", "/w/murmur.yaml"] };
  const still = decide("scoped", probed(), { places, commands: false });
  assert.deepEqual([still.achieved, still.unguarded, still.guarded], ["scoped", [], places.trusted]);
  const linked = decide("advisory", probed(), { places });
  assert.deepEqual([linked.achieved, linked.unguarded, linked.guarded], ["advisory", ["/w/link"], ["/w/murmur.yaml"]]);
  const bare = decide("advisory", probed(NO_MOUNTS), { places });
  assert.deepEqual([bare.unguarded, bare.guarded], [places.trusted, []]);
});

Deno.test("commands without a network namespace of their own are refused on Linux at every floor", () => {
  for (
    const [network, usernsGrant, blocker] of [
      ["ok", "apparmor_absent", null],
      ["ok", "withheld", "capability_grant_missing"],
      ["denied", "apparmor_absent", "capability_grant_missing"],
      ["map-denied", "apparmor_absent", "capability_grant_missing"],
      ["config-denied", "apparmor_absent", "capability_grant_missing"],
      ["unsupported", "apparmor_absent", "kernel_support_missing"],
    ] as const
  ) {
    const host = probed({ network, usernsGrant });
    assert.equal(egressBlocker(host), blocker);
    const refusal = egressRefusal(host, true);
    assert.equal(refusal?.code ?? null, blocker === null ? null : "E-CAP-005");
    if (refusal !== null) assert.match(refusal.message, /network namespace of their own: \S+ .*\((capability|kernel)_/);
    assert.equal(egressRefusal(host, false), null);
  }
  assert.equal(egressRefusal(FOREIGN, true), null);
});

Deno.test("links below an export root are refused under a scoped class alone", () => {
  assert.deepEqual(CONTAINMENT_CLASSES.map(exportSymlinks), ["followed-inside", "refused", "followed-inside"]);
});

const anyHost = fc.record({
  landlock: fc.boolean(),
  sealed: fc.constantFrom("ok", "denied", "map-denied", "mount-denied", "pivot-denied", "unsupported"),
  privateMounts: fc.constantFrom("ok", "denied", "map-denied", "mount-denied", "unsupported"),
  usernsGrant: fc.constantFrom("apparmor_absent", "restriction_disabled_host_wide", "profile_confining", "withheld"),
}).map((more) => probed(more as Partial<HostProbe>));
const anyFloor = fc.constantFrom(...CONTAINMENT_CLASSES);
const anyPlaces = fc.record({
  sessionDirectoryInWorkdir: fc.constantFrom(null, "/w/s"),
  unguardable: fc.constantFrom([], ["/w/x"]),
}).map((more) => ({ ...PLACES, ...more, trusted: more.unguardable }));

Deno.test("a refusal is there exactly when the achieved class is below the floor, and always with a reason", () => {
  fc.assert(fc.property(anyHost, anyFloor, anyPlaces, fc.boolean(), (host, floor, places, exec) => {
    const decision = decide(floor, host, {
      places,
      manifest: manifest(exec ? "{ filesystem: { workdir_exec: true } }" : "{}"),
    });
    assert.equal(decision.refusal === null, meetsClass(decision.achieved, floor));
    assert.equal(decision.shortfall === null, decision.refusal === null);
    if (exec || places.unguardable.length > 0) assert.equal(decision.achieved, "advisory");
    assert.ok(meetsClass(classOfTier(decision.tier, decision.privateMounts), decision.achieved));
    assert.ok(meetsClass(decision.host, decision.achieved), "no declaration raises a class above the host's");
  }));
});

Deno.test("asking for more never achieves less", () => {
  fc.assert(fc.property(anyHost, anyPlaces, (host, places) => {
    const achieved = CONTAINMENT_CLASSES.map((floor) => decide(floor, host, { places }).achieved);
    assert.ok(meetsClass(achieved[1]!, achieved[0]!) && meetsClass(achieved[2]!, achieved[1]!));
  }));
});
