import assert from "node:assert/strict";
import fc from "fast-check";
import { isAtOrBelow } from "../base/paths.ts";
import type { CommandGrants } from "./command_grants.ts";
import type { HostRoot } from "./composed_root.ts";
import { type CommandRecord, type ConfineTier, encodeRecords } from "./confine_records.ts";
import { commandRecords, planCommands, type PlanFacts } from "./confine_plan.ts";

const HOST: HostRoot = {
  runtime: [
    { path: "/usr", kind: "directory" },
    { path: "/bin", kind: "symlink", target: "usr/bin" },
    { path: "/lib64", kind: "symlink", target: "usr/lib64" },
  ],
  etc: [{ path: "/etc/ssl", kind: "directory" }, { path: "/etc/hosts", kind: "file" }],
  devices: ["/dev/null", "/dev/urandom"],
  bases: ["/tmp", "/run", "/mnt"],
};

const GRANTS: CommandGrants = {
  directories: {
    workdir: "/proj/work",
    records: "/home/u/.murmur/records/r",
    runtime: "/home/u/.murmur/sessions/s/runtime",
  },
  workdirExec: false,
  execute: ["/usr/bin/bash", "/usr/lib64/ld.so", "/usr/lib64/libc.so.6"],
  interpreterRuntime: [],
  stagedRuntime: [],
  hostPaths: [],
  hostFiles: [],
  resolvConf: null,
  links: [],
  unixSockets: false,
};

const FACTS: PlanFacts = {
  tier: "full",
  privateMounts: true,
  pidNamespace: true,
  landlockAbiAtMost: null,
  uid: 1000,
  gid: 1000,
  grants: GRANTS,
  protect: [],
  rlimits: { nofile: 1024 },
  watch: new Map([["memory_bytes", 5]]),
  cgroups: [],
  hostRoot: HOST,
  syntheticEtc: "/home/u/.murmur/sessions/s/sealed-etc",
};

const TIERS: readonly ConfineTier[] = ["sealed", "full", "seccomp", "env"];
const facts = (tier: ConfineTier, grants: Partial<CommandGrants> = {}, more: Partial<PlanFacts> = {}): PlanFacts => ({
  ...FACTS,
  tier,
  ...more,
  grants: { ...GRANTS, ...grants },
});
const records = (given: PlanFacts): readonly CommandRecord[] =>
  commandRecords(planCommands(given), {
    program: "/usr/bin/bash",
    argv: ["bash"],
    nativeFiles: [],
    nativeNames: [],
    join: null,
  });
const ofOp = <Op extends CommandRecord["op"]>(list: readonly CommandRecord[], op: Op) =>
  list.filter((record): record is Extract<CommandRecord, { op: Op }> => record.op === op);

Deno.test("each tier has exactly the kinds of records that it knows", () => {
  const ops = (tier: ConfineTier, more: Partial<PlanFacts> = {}) =>
    [...new Set(records(facts(tier, {}, more)).map(({ op }) => op))].sort();
  const common = ["cwd", "exec", "ids", "rlimit", "tier"];
  const walls = ["pidns", "unix", "watch"];
  assert.deepEqual(ops("env"), common);
  assert.deepEqual(ops("seccomp"), [...common, ...walls, "mounts", "rebind", "rw", "tmpmap"].sort());
  assert.deepEqual(ops("seccomp", { privateMounts: false }), [...common, ...walls].sort());
  assert.deepEqual(ops("full"), [...common, ...walls, "mounts", "rebind", "rule", "rw", "tmpmap"].sort());
  assert.deepEqual(ops("full", { privateMounts: false }), [...common, ...walls, "rule"].sort());
  assert.deepEqual(
    ops("sealed"),
    [...common, ...walls, "rule", "base", "bind", "devpts", "mkdir", "mkfile", "proc", "seal", "symlink", "tmpfs"]
      .sort(),
  );
});

Deno.test("the rules of the full tier are those of the table, and a native tool adds its own files alone", () => {
  const rules = (list: readonly CommandRecord[]) =>
    ofOp(list, "rule").map(({ rights, presence, path }) => `${rights} ${presence} ${path}`);
  const plan = planCommands(facts("full", {
    interpreterRuntime: [
      { canonical: "/opt/py", listDir: true, kind: "directory" },
      { canonical: "/opt/px", listDir: false, kind: "directory" },
    ],
    hostPaths: [{ path: "/data", access: "read" }, { path: "/share", access: "read-write" }],
    hostFiles: [
      { path: "/etc/hosts", kind: "file", purpose: "name resolution" },
      { path: "/etc/ssl", kind: "directory", purpose: "trust store" },
    ],
  }));
  const expected = [
    "W req /proj/work",
    "W req /home/u/.murmur/records/r/tmp",
    "W req /home/u/.murmur/records/r/home",
    "RL req /home/u/.murmur/records/r",
    "RL req /home/u/.murmur/sessions/s/runtime",
    "RX opt /usr/bin/bash",
    "RX opt /usr/lib64/ld.so",
    "RX opt /usr/lib64/libc.so.6",
    "RXL opt /opt/py",
    "RX opt /opt/px",
    "RL req /data",
    "W req /share",
    "R opt /etc/hosts",
    "RL opt /etc/ssl",
    "DRW opt /dev/null",
    "R opt /dev/zero",
    "R opt /dev/urandom",
  ];
  assert.deepEqual(rules(plan.records), expected);
  const tool = commandRecords(plan, {
    program: "/t/tool",
    argv: ["tool"],
    nativeFiles: ["/t/tool", "/usr/lib64/libz.so.1"],
    nativeNames: [],
    join: null,
  });
  assert.deepEqual(rules(tool), [...expected, "RX req /t/tool", "RX req /usr/lib64/libz.so.1"]);
});

Deno.test("who may use the network asks the session's own relay for names, wherever the host's file points", () => {
  const own = "/home/u/.murmur/sessions/s/sealed-etc/resolv.conf";
  for (const tier of ["full", "seccomp"] as const) {
    const covers = (resolvConf: string | null, privateMounts: boolean) =>
      ofOp(records(facts(tier, { resolvConf }, { privateMounts })), "cover");
    assert.deepEqual(covers("/run/x/resolv.conf", true), [{ op: "cover", source: own, path: "/run/x/resolv.conf" }]);
    assert.deepEqual(covers("/run/x/resolv.conf", false), []);
    assert.deepEqual(covers(null, true), []);
  }
  const rules = ofOp(records(facts("full", { resolvConf: "/etc/resolv.conf" })), "rule");
  assert.deepEqual(rules.filter(({ path }) => path === own), [{ op: "rule", rights: "R", presence: "req", path: own }]);
});

Deno.test("a sealed root is put together in an order in which nothing hides what was laid before", () => {
  const list = records(facts("sealed", {
    directories: { ...GRANTS.directories, workdir: "/tmp/w" },
    execute: [...GRANTS.execute, "/opt/app/bin/app"],
    stagedRuntime: [{ path: "/opt/py", kind: "directory" }],
    interpreterRuntime: [{ canonical: "/usr/lib/python3", listDir: true, kind: "directory" }],
    links: [
      { path: "/opt/app/app", target: "/opt/app/bin/app", kind: "file", inCanonicalDirectory: true },
      { path: "/usr/local/bin/app", target: "/opt/app/bin/app", kind: "file", inCanonicalDirectory: true },
    ],
  }));
  const text = list.flatMap((record) => {
    switch (record.op) {
      case "bind":
        return [
          `${record.access} ${record.presence} ${record.source}${
            record.source === record.target ? "" : ` on ${record.target}`
          }`,
        ];
      case "symlink":
        return [`${record.path} -> ${record.target}`];
      case "base":
        return [`base ${record.path}`];
      case "mkdir":
      case "mkfile":
      case "tmpfs":
      case "proc":
      case "devpts":
        return [`${record.op} ${record.path}`];
      case "seal":
        return ["seal"];
      default:
        return [];
    }
  });
  const etc = "/home/u/.murmur/sessions/s/sealed-etc";
  assert.deepEqual(text, [
    "base /run",
    "/bin -> usr/bin",
    "/lib64 -> usr/lib64",
    "mkdir /etc",
    "mkdir /dev",
    "tmpfs /dev",
    "mkdir /dev/pts",
    "devpts /dev/pts",
    "/dev/fd -> /proc/self/fd",
    "/dev/stdin -> /proc/self/fd/0",
    "/dev/stdout -> /proc/self/fd/1",
    "/dev/stderr -> /proc/self/fd/2",
    "/dev/ptmx -> pts/ptmx",
    "mkdir /proc",
    "proc /proc",
    "mkfile /dev/null",
    "dev opt /dev/null",
    "mkfile /dev/urandom",
    "dev opt /dev/urandom",
    "mkfile /etc/group",
    `ro req ${etc}/group on /etc/group`,
    "mkfile /etc/hosts",
    "ro opt /etc/hosts",
    "mkfile /etc/passwd",
    `ro req ${etc}/passwd on /etc/passwd`,
    "mkfile /etc/resolv.conf",
    `ro req ${etc}/resolv.conf on /etc/resolv.conf`,
    "mkdir /etc/ssl",
    "ro opt /etc/ssl",
    "mkdir /home",
    "mkdir /home/u",
    "mkdir /home/u/.murmur",
    "mkdir /home/u/.murmur/records",
    "mkdir /home/u/.murmur/records/r",
    "data req /home/u/.murmur/records/r",
    "rw req /home/u/.murmur/records/r/home",
    "rw req /home/u/.murmur/records/r/tmp",
    "mkdir /home/u/.murmur/sessions",
    "mkdir /home/u/.murmur/sessions/s",
    "mkdir /home/u/.murmur/sessions/s/runtime",
    "data req /home/u/.murmur/sessions/s/runtime",
    "mkdir /opt",
    "mkdir /opt/app",
    "mkdir /opt/app/bin",
    "ro opt /opt/app/bin",
    "mkdir /opt/py",
    "ro req /opt/py",
    "mkdir /tmp",
    "rw req /home/u/.murmur/records/r/tmp on /tmp",
    "mkdir /tmp/w",
    "rw req /tmp/w",
    "mkdir /usr",
    "ro opt /usr",
    "/opt/app/app -> /opt/app/bin/app",
    "seal",
  ]);
});

Deno.test("no candidate for the base means a named error, and so does a work folder that is the root", () => {
  const none = facts("sealed", {}, { hostRoot: { ...HOST, bases: [] } });
  assert.throws(() => planCommands(none), { code: "E-RUN-014", message: /^sealed-root: base failed: / });
  for (const tier of ["sealed", "full", "seccomp"] as const) {
    const root = facts(tier, { directories: { ...GRANTS.directories, workdir: "/" } });
    assert.throws(() => planCommands(root), { code: "E-IO-003" });
  }
});

Deno.test("what lies beneath /tmp is shown again when /tmp is mapped, read-only unless it may be written", () => {
  const list = records(facts("full", {
    directories: { workdir: "/tmp/w", records: "/tmp/h/records/r", runtime: "/tmp/h/sessions/s/runtime" },
    execute: ["/usr/bin/bash", "/tmp/bin/tool", "/tmp/w/own"],
    hostPaths: [{ path: "/tmp/data", access: "read" }, { path: "/tmp/data/out", access: "read-write" }],
    links: [{ path: "/tmp/names/tool", target: "/tmp/bin/tool", kind: "file", inCanonicalDirectory: true }],
  }));
  const mounts = list.flatMap((record) => {
    if (record.op === "rw" || record.op === "tmpmap") return [`${record.op} ${record.exec} ${record.path}`];
    return record.op === "rebind" ? [`rebind ${record.exec} ${record.path}`] : [];
  });
  assert.deepEqual(mounts, [
    "tmpmap false /tmp/h/records/r/tmp",
    "rebind true /tmp/bin/tool",
    "rebind false /tmp/data",
    "rw false /tmp/data/out",
    "rebind false /tmp/h/records/r",
    "rw false /tmp/h/records/r/home",
    "rw false /tmp/h/records/r/tmp",
    "rebind false /tmp/h/sessions/s/runtime",
    "rebind true /tmp/names",
    "rw false /tmp/w",
  ]);
});

Deno.test("a work folder that is /tmp is not covered, and nothing is shown again", () => {
  const given = facts("full", { directories: { ...GRANTS.directories, workdir: "/tmp" } });
  assert.deepEqual(planCommands(given).temporary, { mapped: false, variable: "/home/u/.murmur/records/r/tmp" });
  assert.deepEqual(ofOp(records(given), "tmpmap"), []);
});

// ------------------------------------------------------------------------------------------------ properties of plans

const path = fc.array(fc.constantFrom("a", "b", "c", "opt", "tmp", "usr", "lib"), { minLength: 2, maxLength: 4 })
  .map((parts) => `/${parts.join("/")}`);
const grants: fc.Arbitrary<CommandGrants> = fc.record({
  directories: fc.record({
    workdir: path,
    records: path.map((each) => `${each}/records`),
    runtime: path.map((each) => `${each}/runtime`),
  }),
  workdirExec: fc.boolean(),
  execute: fc.array(path.map((each) => `${each}.bin`), { maxLength: 4 }),
  interpreterRuntime: fc.array(
    fc.record({
      canonical: path,
      listDir: fc.boolean(),
      kind: fc.constantFrom<"directory" | "file">("directory", "file"),
    }),
    { maxLength: 2 },
  ),
  stagedRuntime: fc.array(fc.record({ path, kind: fc.constant<"directory">("directory") }), { maxLength: 2 }),
  hostPaths: fc.array(
    fc.record({ path, access: fc.constantFrom<"read" | "read-write">("read", "read-write") }),
    {
      maxLength: 2,
    },
  ),
  hostFiles: fc.constant([]),
  resolvConf: fc.constantFrom(null, "/etc/resolv.conf", "/run/resolve/stub-resolv.conf"),
  links: fc.array(
    fc.record({
      path: path.map((each) => `${each}.link`),
      // What a directory is called no file is.
      target: path.map((each) => `${each}.bin`),
      kind: fc.constant<"file">("file"),
      inCanonicalDirectory: fc.boolean(),
    }),
    { maxLength: 2 },
  ),
  unixSockets: fc.boolean(),
});
const anyFacts = fc.record({
  tier: fc.constantFrom(...TIERS),
  privateMounts: fc.boolean(),
  grants,
}).map(({ tier, privateMounts, grants }): PlanFacts => ({
  ...FACTS,
  tier,
  privateMounts,
  grants,
  hostRoot: { ...HOST, bases: ["/mnt"] },
  syntheticEtc: "/s/sealed-etc",
}));

/** Paths a session may write, whatever the tier. */
const writableOf = ({ directories, hostPaths }: CommandGrants) => [
  directories.workdir,
  `${directories.records}/tmp`,
  `${directories.records}/home`,
  ...hostPaths.filter(({ access }) => access === "read-write").map(({ path }) => path),
];

Deno.test("no plan grants writing outside the writable grants", () => {
  fc.assert(fc.property(anyFacts, (given) => {
    const writable = writableOf(given.grants);
    for (const record of records(given)) {
      if (record.op === "rule" && record.rights.startsWith("W")) assert.ok(writable.includes(record.path), record.path);
      if (record.op === "rule" && record.rights === "DRW") assert.ok(record.path.startsWith("/dev/"));
      if (record.op === "rw" || record.op === "tmpmap") assert.ok(writable.includes(record.path), record.path);
      if (record.op === "bind" && record.access.startsWith("rw")) assert.ok(writable.includes(record.source));
    }
  }));
});

Deno.test("nothing may be executed but the execute list and the granted runtimes", () => {
  fc.assert(fc.property(anyFacts, (given) => {
    const { execute, interpreterRuntime, stagedRuntime, workdirExec, directories } = given.grants;
    const may = new Set([
      ...execute,
      ...interpreterRuntime.map(({ canonical }) => canonical),
      ...stagedRuntime.map(({ path }) => path),
    ]);
    const own = [directories.workdir, `${directories.records}/tmp`, `${directories.records}/home`];
    for (const record of records(given)) {
      if (record.op === "rule" && record.rights.includes("X")) {
        assert.ok(may.has(record.path) || workdirExec && own.includes(record.path), record.path);
      }
      if ((record.op === "rw" || record.op === "tmpmap") && record.exec) {
        assert.ok(workdirExec && own.includes(record.path));
      }
      if (record.op === "bind" && record.access === "rwx") assert.ok(workdirExec && own.includes(record.source));
    }
  }));
});

Deno.test("what may be written is never shown under a second path where it could be mapped to run", () => {
  fc.assert(fc.property(anyFacts, (given) => {
    if (given.tier !== "sealed" || given.grants.workdirExec) return;
    const binds = ofOp(records(given), "bind");
    // What a path of the root shows in the end: the deepest bind above it.
    for (const written of writableOf(given.grants)) {
      for (const view of binds) {
        if (!isAtOrBelow(written, view.source)) continue;
        const shown = `${view.target}${written.slice(view.source.length)}`;
        const deepest = binds.filter(({ target }) => isAtOrBelow(shown, target))
          .sort((a, b) => b.target.length - a.target.length)[0]!;
        const same = `${deepest.source}${shown.slice(deepest.target.length)}` === written;
        if (same) assert.equal(deepest.access, "rw", `${shown} shows ${written}`);
      }
    }
  }));
});

Deno.test("a directory is mounted before what lies in it, each target once, its place made before", () => {
  fc.assert(fc.property(anyFacts, (given) => {
    const list = records(given);
    const targets: string[] = [];
    for (const record of list) {
      if (record.op !== "rw" && record.op !== "rebind" && record.op !== "bind") continue;
      const target = record.op === "bind" ? record.target : record.path;
      assert.ok(!targets.some((earlier) => target !== earlier && isAtOrBelow(earlier, target)), `${target} covers`);
      if (record.op === "bind") assert.ok(!targets.includes(target), `${target} twice`);
      targets.push(target);
    }
    if (given.tier !== "sealed") return;
    const made = new Set(["/"]);
    for (const record of list) {
      if (record.op === "mkdir" || record.op === "mkfile") {
        const parent = record.path.slice(0, record.path.lastIndexOf("/")) || "/";
        assert.ok(made.has(parent), `${parent} before ${record.path}`);
        made.add(record.path);
      }
    }
    assert.equal(list.findLast(({ op }) => ROOT_OPS.has(op))?.op, "seal");
    assert.equal(list.find(({ op }) => ROOT_OPS.has(op))?.op, "base");
  }));
});

const ROOT_OPS = new Set<string>(["base", "mkdir", "mkfile", "symlink", "bind", "tmpfs", "proc", "devpts", "seal"]);

Deno.test("more grants never take a rule away", () => {
  fc.assert(fc.property(fc.constantFrom<ConfineTier>("full", "sealed"), grants, grants, (tier, less, more) => {
    const both: CommandGrants = {
      ...less,
      execute: [...less.execute, ...more.execute],
      interpreterRuntime: [...less.interpreterRuntime, ...more.interpreterRuntime],
      hostPaths: [...less.hostPaths, ...more.hostPaths],
      stagedRuntime: [...less.stagedRuntime, ...more.stagedRuntime],
    };
    const rules = (given: CommandGrants) =>
      ofOp(records(facts(tier, given)), "rule").map((each) => JSON.stringify(each));
    const wider = new Set(rules(both));
    for (const each of rules(less)) assert.ok(wider.has(each), each);
  }));
});

Deno.test("every plan can be encoded", () => {
  fc.assert(fc.property(anyFacts, (given) => {
    assert.ok(encodeRecords(records(given)).length > 0);
  }));
});
