import assert from "node:assert/strict";
import { parseCapsuleManifest } from "../../artifact/manifest/parse_capsule_manifest.ts";
import type { JsonObject } from "../../base/json_value.ts";
import { chooseAggregateLimits } from "../../sandbox/aggregate_limits.ts";
import { decideContainment } from "../../sandbox/containment_class.ts";
import type { HostReading } from "../../sandbox/host_containment.ts";
import { probed } from "../../sandbox/testing/host_readings.ts";
import type { SnapshotReport } from "../delegation/snapshot_report.ts";
import type { ContainmentJudgement } from "./containment_judgement.ts";
import { scopeReport, scopeText } from "./scope_report.ts";

const KEYS =
  "declared_containment achieved_containment host_containment floor_met enforcement_tier routes userns_grant landlock_abi filesystem_scope workdir_exec read_only_paths read_only_advisory_for preopens network_allow unix_sockets shell_allow spawn_allow spawn_workdir_snapshot parent_workdir images env_allow plan_submit install_skill install_tool install_from interpreter_runtime_grants derived_interpreter_runtime trust_store declared_needs pinned_programs name_resolution host_paths exports_files peer_files peer_tasks peer_fetch_allow state_stores configured_artifacts staged_runtime_grants runtime_writes io_max filesystem_boundary private_mounts pid_namespace aggregate_limits trusted_files component_host program_configuration"
    .split(" ");

interface Case {
  readonly capabilities?: string;
  readonly floor?: "advisory" | "scoped" | "sealed";
  readonly host?: HostReading;
  readonly judgement?: Partial<ContainmentJudgement>;
  readonly unguardable?: readonly string[];
  readonly copiedFolder?: SnapshotReport;
}

function report({ capabilities = "{ shell: { allow: [git] } }", floor = "advisory", ...more }: Case = {}): JsonObject {
  const host: HostReading = more.host ?? probed();
  const { manifest } = parseCapsuleManifest(`name: a\nversion: "1"\ncapabilities: ${capabilities}\n`, "murmur.yaml");
  const unguardable = more.unguardable ?? [];
  const judgement: ContainmentJudgement = {
    host,
    decision: decideContainment({
      manifest,
      floor,
      host,
      commands: true,
      places: { sessionDirectoryInWorkdir: null, trusted: ["/w/.env", ...unguardable], unguardable },
    }),
    aggregate: chooseAggregateLimits(true, {
      v2Problem: null,
      v1Problem: null,
      v1Cpu: true,
      ioProblem: null,
      samplingProblem: null,
    }),
    commands: true,
    allow: { binaries: [], execute: [] },
    hostPaths: [],
    hostPathLinks: [],
    guards: { protect: [], placeholders: [], trusted: [], unguardable: [] },
    workdir: "/w",
    hostFiles: [],
    refusals: [],
    stagingWarnings: [],
    launchWarnings: [],
    ...more.judgement,
  };
  return scopeReport(manifest, {
    judgement,
    stateRoot: "/s",
    componentHost: ["seccomp"],
    readOnlyAdvisoryFor: [],
    copiedFolder: more.copiedFolder ?? null,
  });
}

Deno.test("the keys stand in their order, the reason of a shortfall behind the floor", () => {
  assert.deepEqual(Object.keys(report()), KEYS);
  const short = Object.keys(report({ floor: "sealed", host: { kind: "foreign", platform: "darwin" } }));
  assert.deepEqual(short, [...KEYS.slice(0, 4), "shortfall_reason", ...KEYS.slice(4)]);
});

Deno.test("a child's copy of its parent's folder, and what keeps commands off the folder itself, by what is applied here", () => {
  const copiedFolder: SnapshotReport = {
    source: "/home/ada/project",
    files: 2,
    directories: 1,
    links: 0,
    bytes: 9,
    skipped: [{ path: "run.sock", reason: "socket" }],
  };
  const restriction = (more: Case) => {
    const { restriction, ...rest } = report({ copiedFolder, ...more }).parent_workdir as JsonObject;
    assert.deepEqual(rest, copiedFolder, "the very object of the parent's trace");
    return restriction;
  };
  assert.equal(report().parent_workdir, null);
  assert.equal(restriction({ floor: "sealed" }), "absent");
  assert.equal(restriction({ floor: "scoped" }), "enforced");
  assert.equal(restriction({ host: { kind: "foreign", platform: "darwin" } }), "advisory");
  assert.equal(
    restriction({ capabilities: "{ filesystem: { workdir_exec: true }, shell: { allow: [git] } }" }),
    "advisory",
  );
});

Deno.test("the text is the one of the specification", () => {
  const capabilities =
    `{ containment: scoped, shell: { allow: [git] }, network: { allow: ["https://api.example.com"] } }`;
  assert.equal(
    scopeText(report({ capabilities, floor: "scoped" })),
    `Containment
  declared:  scoped
  achieved:  scoped
  floor met: yes
  mechanism: landlock+seccomp
  userns grant: apparmor_absent

Not protected here
  - paths outside the grants are denied to commands, not absent: their metadata stays visible
  - HOME is rewritten for every command, so a probe of ~ proves nothing: test with an absolute path

Effective grants
  filesystem scope: <none>
  workdir exec:     false
  read_only: <none>
  preopens: <none>
  network allow:
    - https://api.example.com
  unix sockets:     false
  shell allow:
    - git
  spawn allow: <none>
  spawn workdir snapshot: <none>
  env allow: <none>
  plan submit:      false
  install skill: <none>
  install tool: <none>
  interpreter runtime: <none>
  staged runtime: <none>
  state stores: <none>
  artifact config: <none>
  host paths: <none>
  trust store: <none>
  name resolution: <none>
  program configuration: <none>
  trusted files:
    - /w/.env

Resource plane
  exports.files: <none>
  io.max:        enforced (104857600 bytes/s declared)
  limits:        cgroup-v2

Peer handoff
  exports.peer_files: <none>
  peer_fetch allow: <none>

Runtime writes: <none>`,
  );
});

Deno.test("a floor that is not met says why, and that a run would be refused", () => {
  const text = scopeText(report({ floor: "sealed", host: { kind: "foreign", platform: "darwin" } }));
  assert.match(text, /\n {2}floor met: no\n {2}reason: {4}this platform has no mount namespaces/);
  assert.match(text, /\n {2}userns grant: n\/a\n/);
  assert.match(text, /\nThis is a report only: mur run would refuse this capsule here\.$/);
});

Deno.test("nothing is left unprotected under a sealed class, and the section is not printed", () => {
  const sealed = report({ floor: "sealed" });
  assert.deepEqual(sealed.filesystem_boundary, { restriction: "absent", not_protected: [] });
  assert.ok(!scopeText(sealed).includes("Not protected here"));
});

Deno.test("what is not protected follows the tier and what is missing on it", () => {
  const statements = (given: Case) => (report(given).filesystem_boundary as JsonObject).not_protected as string[];
  const has = (given: Case, ...patterns: RegExp[]) => {
    const found = statements(given);
    assert.equal(found.length, patterns.length, found.join("\n"));
    patterns.forEach((pattern, index) => assert.match(found[index]!, pattern));
  };
  const HOME = /^HOME is rewritten/;
  has({ host: { kind: "foreign", platform: "darwin" } }, /denies reads or writes/, HOME);
  has({ host: probed({ landlock: false }) }, /denies reads of a command/, HOME);
  has(
    { host: probed({ sealed: "denied", privateMounts: "denied", pidNamespace: false }) },
    /denied to commands, not absent/,
    HOME,
    /loader can run what commands wrote/,
    /without a process namespace/,
    /can be written by commands: \/w\/\.env$/,
  );
  has({ capabilities: "{ filesystem: { workdir_exec: true } }" }, /not absent/, HOME, /workdir_exec/);
  has({ unguardable: ["/w/link"] }, /not absent/, HOME, /\/w\/link/);
});

Deno.test("host paths, network files, placeholders and weaker limits are told in both forms", () => {
  const given = report({
    unguardable: ["/w/link"],
    judgement: {
      hostPaths: [{ path: "/data", access: "read", credentials: ["/data/.ssh"] }],
      hostFiles: [
        { path: "/etc/hosts", kind: "file", purpose: "name resolution" },
        { path: "/etc/ssl", kind: "directory", purpose: "trust store" },
        { path: "/etc/gitconfig", kind: "file", purpose: "program configuration" },
      ],
      guards: {
        protect: [],
        placeholders: [
          { grant: "/w", path: "/w/.env", directory: false },
          { grant: "/shared", path: "/shared/.env", directory: false },
        ],
        trusted: [],
        unguardable: [],
      },
      aggregate: chooseAggregateLimits(true, { untried: "no groups" }),
    },
  });
  assert.deepEqual(given.host_paths, [{ path: "/data", access: "read", credentials: ["/data/.ssh"] }]);
  assert.deepEqual([given.name_resolution, given.trust_store, given.program_configuration], [
    ["/etc/hosts"],
    ["/etc/ssl"],
    ["/etc/gitconfig"],
  ]);
  assert.deepEqual(given.runtime_writes, [
    { path: ".env", kind: "file", scope: "accessible", condition: "workdir-provided" },
  ]);
  assert.deepEqual(given.aggregate_limits, { mechanism: "none", reason: "no groups" });
  assert.deepEqual(given.io_max, { declared_bytes_per_sec: 104857600, status: "unavailable", reason: "no groups" });
  const text = scopeText(given);
  for (
    const line of [
      "    - /data (read), reaches credentials: /data/.ssh",
      "    - /etc/hosts",
      "    - /etc/ssl",
      "    - /w/link (not guarded)",
      "  - .env (file, workdir-provided)",
      "  limits:        none (no groups)",
      "  io.max:        unavailable (104857600 bytes/s declared)",
    ]
  ) assert.ok(text.includes(`\n${line}\n`) || text.endsWith(line), line);
});

Deno.test("what is shown to others, and what is written for a fetching capsule, stands in the report", () => {
  const shown = report({
    capabilities: "{ peer_fetch: { allow: [localhost] } }\nexports: { peer_files: { root: out } }",
  });
  assert.deepEqual(shown.peer_files, { root: "out", max_ttl_secs: 3_600, max_bytes: 10 << 20 });
  assert.deepEqual(shown.runtime_writes, [
    { path: "peer-in", kind: "directory", scope: "accessible", condition: "peer-fetch" },
  ]);
  assert.deepEqual(shown.peer_fetch_allow, ["localhost"]);
});
