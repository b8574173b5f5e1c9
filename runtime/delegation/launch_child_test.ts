import assert from "node:assert/strict";
import { newId } from "../../base/ids.ts";
import { libc } from "../../base/libc.ts";
import { murmurHomeAt } from "../../base/murmur_home.ts";
import { startToken } from "../../base/process_identity.ts";
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "../../base/time_bounds.ts";
import { RoostDaemon, RoostHome } from "../../roost/testing/daemon.ts";
import type { ChildLaunch, ChildLaunchResult, ChildProcess, DelegatingSession } from "./child_launch.ts";
import { launchChild } from "./launch_child.ts";
import { register, type Registration } from "./registration.ts";
import { parseSpawnerHandle } from "./spawner_handle.ts";

const BOUNDS: TimeBounds = {
  ...DEFAULT_TIME_BOUNDS,
  childLaunch: 2_000,
  childDelivery: 600,
  childStopGrace: 300,
  childLastWords: 200,
};

/** A parent's session whose children are scripts: what a child is, each test says. */
interface Parent {
  readonly session: DelegatingSession;
  readonly daemon: RoostDaemon;
  readonly sha256: string;
  readonly recordsDir: string;
  /** `host:port` of a door that takes every task, and what it was sent. */
  readonly door: { readonly url: string; readonly sent: string[] };
  /** What the script wrote down about itself. */
  note(name: string): string;
  /** Folders of children there are. */
  folders(): string[];
  launch(
    script: string,
    more?: Partial<ChildLaunch> & { session?: Partial<DelegatingSession> },
  ): Promise<ChildLaunchResult>;
  /** Children of this process that are alive. */
  alive(): number[];
}

const CHILD_SESSION = newId("ses");

function ready(url: string): string {
  return `echo '${
    JSON.stringify({ url, pid: 1, session_id: CHILD_SESSION, name: "worker", version: "1.0.0", workdir: "/" })
  }'`;
}

async function parent(
  body: (parent: Parent) => Promise<void>,
  { worker = "" }: { worker?: string } = {},
): Promise<void> {
  // As `mur run` does first of all: the test's own launcher may have left it some.
  libc().closeOnExecFrom(3);
  await using home = new RoostHome();
  await home.install(
    "boss",
    "capabilities:\n  spawn:\n    allow: [local/worker, local/boss]\n  env:\n    allow: [BOTH, PATH]\n",
  );
  const sha256 = await home.install("worker", worker);
  // A launch that fails holds its slot until its approval expires.
  const wide = ["--max-concurrent", "64", "--max-live-capsules", "64"];
  await using daemon = await RoostDaemon.start(["--spawn-allow", "local/boss", ...wide], { home: home.path });
  const sessionId = newId("ses");
  const murmur = murmurHomeAt(home.path);
  const recordsDir = `${murmur.records}/project/${sessionId}`;
  const workdir = `${home.path}/project`;
  for (const path of [recordsDir, workdir]) Deno.mkdirSync(path, { recursive: true });
  Deno.writeTextFileSync(`${workdir}/code.ts`, "parent's code");
  const registration: Registration = await register({
    daemon: daemon.url,
    sessionId,
    name: "local/boss",
    version: "1.0.0",
    approval: null,
    bounds: BOUNDS,
  });
  const sent: string[] = [];
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    sent.push(await request.text());
    return Response.json({
      jsonrpc: "2.0",
      id: 1,
      result: { task: { id: "tsk_9", status: { state: "TASK_STATE_SUBMITTED" } } },
    });
  });
  const binary = `${home.path}/child`;
  const held: Record<string, string> = {
    PATH: "/usr/bin:/bin",
    HOME: home.path,
    USER: "ada",
    BOTH: "both's",
    SECRET: "secret",
    MURMUR_MUR_BINARY: binary,
    MURMUR_SPAWNER_LIFELINE: "99",
  };
  const session: DelegatingSession = {
    sessionId,
    url: "localhost:1",
    home: murmur,
    recordsDir,
    scratchDir: `${murmur.sessions}/${sessionId}`,
    workdir,
    cwd: workdir,
    stores: [home.store],
    env: { get: (name) => held[name] },
    envAllow: ["BOTH", "PATH", "MISSING"],
    snapshots: [],
    formationId: null,
    registration,
    bounds: BOUNDS,
    hostTold: new Set(),
    diagnostics: () => {},
  };
  const notes = `${home.path}/notes`;
  Deno.mkdirSync(notes);
  await body({
    session,
    daemon,
    sha256,
    recordsDir,
    door: { url: `127.0.0.1:${server.addr.port}`, sent },
    note: (name) => Deno.readTextFileSync(`${notes}/${name}`),
    folders: () => {
      try {
        return [...Deno.readDirSync(`${recordsDir}/children`)].map(({ name }) => name);
      } catch {
        return [];
      }
    },
    async launch(script, { session: other = {}, ...more } = {}) {
      Deno.writeTextFileSync(binary, `#!/bin/bash\nnotes=${notes}\necho $$ > $notes/pid\n${script}\n`, { mode: 0o755 });
      return await launchChild({ ...session, ...other }, {
        capsule: "local/worker",
        version: "1.0.0",
        task: "the task",
        contextId: "ctx_1",
        reports: true,
        traceparent: null,
        signal: new AbortController().signal,
        ready: () => {},
        ...more,
      });
    },
    alive: () => {
      const pid = Number(Deno.readTextFileSync(`${notes}/pid`));
      return startToken(pid) === null ? [] : [pid];
    },
  });
}

async function failure(
  launching: Promise<ChildLaunchResult>,
): Promise<Extract<ChildLaunchResult, { status: "failed" }>> {
  const result = await launching;
  assert.equal(result.status, "failed", JSON.stringify(result));
  return result as Extract<ChildLaunchResult, { status: "failed" }>;
}

Deno.test("a child that is launched: arguments, environment, input, descriptors, folder, task", () =>
  parent(async ({ session, sha256, recordsDir, door, note, folders, launch }) => {
    const told: ChildProcess[] = [];
    const script = `
      printf '%s\\n' "$@" > $notes/argv; env -0 > $notes/env; pwd > $notes/cwd; stat -c %a . > $notes/mode
      ls -A > $notes/files; cat > $notes/input; ls -m /proc/$$/fd > $notes/fds; readlink /proc/$$/fd/3 > $notes/lifeline
      ${ready(door.url)}; exec sleep 60`;
    const result = await launch(script, { ready: (child) => told.push(child) });
    assert.equal(result.status, "started", JSON.stringify(result));
    const { child, taskId } = result as Extract<ChildLaunchResult, { status: "started" }>;
    try {
      assert.deepEqual(told, [child]);
      assert.equal(taskId, "tsk_9");
      assert.match(child.workdir, new RegExp(`^${recordsDir}/children/worker-[0-9a-f]{16}$`));
      assert.equal(note("cwd"), `${child.workdir}\n`);
      assert.equal(note("mode"), "700\n");
      assert.equal(note("files"), "");
      assert.deepEqual(note("argv").trim().split("\n"), [
        ...["run", "--capsule", "local/worker", "--capsule-version", "1.0.0", "--capsule-sha256", sha256],
        ...["--workdir", child.workdir, "--json", "--no-env-file", "--spawn-grant-stdin"],
      ]);
      assert.match(note("input"), /^msa1\.[^\n]+\n$/);
      const approval = note("input").trim();
      const env = Object.fromEntries(
        note("env").split("\0").filter((line) => line !== "").map((line) => line.split(/=(.*)/s)),
      );
      // What the shell that the script runs in sets by itself.
      for (const name of ["PWD", "SHLVL", "_", "OLDPWD"]) delete env[name];
      assert.deepEqual({ ...env, MURMUR_SPAWNER: undefined }, {
        PATH: "/usr/bin:/bin",
        HOME: session.env.get("HOME"),
        USER: "ada",
        BOTH: "both's",
        MURMUR_ROOST_URL: session.registration.daemon,
        MURMUR_HOST_WARNINGS_REPORTED: "1",
        MURMUR_SPAWNER_LIFELINE: "3",
        MURMUR_SPAWNER: undefined,
      });
      assert.deepEqual(parseSpawnerHandle(env.MURMUR_SPAWNER), {
        url: "http://localhost:1",
        sessionId: session.sessionId,
        contextId: "ctx_1",
        delegationId: child.delegationId,
      });
      assert.equal(note("fds"), "0, 1, 2, 255, 3\n", "255 is the shell's own script");
      assert.match(note("lifeline"), /^pipe:/);
      for (const visible of [note("argv"), note("env")]) assert.ok(!visible.includes(approval), "the approval is seen");
      assert.equal(JSON.parse(door.sent[0]!).params.message.parts[0].text, "the task");
      assert.equal(child.recordsDir, `${session.home.records}${child.workdir}/${CHILD_SESSION}`);
      assert.deepEqual([child.sessionId, child.capsule, child.version], [CHILD_SESSION, "local/worker", "1.0.0"]);
      assert.ok(child.readyAt >= child.launchedAt);
      assert.equal(folders().length, 1);
    } finally {
      await child.end();
    }
  }, { worker: "capabilities:\n  env:\n    allow: [BOTH, PATH]\n" }));

Deno.test("two launches of one capsule have two folders", () =>
  parent(async ({ door, folders, launch }) => {
    const results = await Promise.all([1, 2].map(() => launch(`${ready(door.url)}; exec sleep 60`)));
    assert.equal(new Set(folders()).size, 2);
    for (const result of results) if (result.status === "started") await result.child.end();
    assert.ok(results.every(({ status }) => status === "started"), JSON.stringify(results));
  }));

Deno.test("a refusal is the daemon's sentence, and leaves nothing", () =>
  parent(async ({ folders, launch, session, daemon }) => {
    const result = await launch("exit 0", { capsule: "local/other" });
    assert.deepEqual(result, { status: "refused", reason: "capsule 'local/other' is not in parent's spawn_allow" });
    assert.deepEqual(folders(), []);
    const before = (await daemon.status(session.sessionId)).body;
    assert.equal(before.live_children, 0);
  }));

Deno.test("a child that fails anywhere on the way is ended and reaped, and the reason says where", () =>
  parent(async ({ door, alive, launch }) => {
    const long = "trap '' TERM; while :; do sleep 0.05; done";
    const cases: Record<string, [script: string, reason: RegExp, session: string | null]> = {
      "ends at once": ["echo why not >&2; exit 4", /ended before.*\(exit status 4\).*why not/s, null],
      "is killed": ["kill -KILL $$", /ended by SIGKILL/, null],
      "says nothing": [`exec sleep 60`, /within 2 s/, null],
      "says nothing and does not listen": [long, /within 2 s/, null],
      "closes its output": [`exec >&-; ${long}`, /ended before it reported itself ready/, null],
      "says something else": [`echo hello; ${long}`, /no JSON/, null],
      "opens no door": [`${ready("")}; ${long}`, /opened no door/, null],
      "has its door elsewhere": [`${ready("evil.example:80")}; ${long}`, /no door on this machine/, null],
      "has no door at all": [`${ready("127.0.0.1:1")}; ${long}`, /did not accept its task.*refused/s, CHILD_SESSION],
      "goes while it is given its task": [
        `${ready("127.0.0.1:1")}; exit 5`,
        /ended first \(exit status 5\)/,
        CHILD_SESSION,
      ],
    };
    for (const [name, [script, reason, sessionId]] of Object.entries(cases)) {
      const result = await failure(launch(script));
      assert.match(result.reason, reason, name);
      assert.match(result.delegationId ?? "", /^dlg_/, name);
      assert.equal(result.sessionId, sessionId, name);
      assert.deepEqual(alive(), [], name);
    }
    assert.deepEqual(door.sent, []);
  }));

Deno.test("before there is a process, a failure leaves no folder either", () =>
  parent(async ({ session, folders, launch }) => {
    const missing = await failure(launch("exit 0", { session: { stores: [] } }));
    assert.deepEqual([missing.delegationId, missing.sessionId], [null, null]);
    assert.match(missing.reason, /not installed/);
    const binary = await failure(launch("exit 0", {
      session: { env: { get: (name) => name === "MURMUR_MUR_BINARY" ? "/no/such/mur" : session.env.get(name) } },
    }));
    assert.match(binary.reason, /could not be started/);
    const large = await failure(launch("exit 0", { session: { snapshots: ["local/worker"] } }));
    assert.match(large.reason, /'worker'.*5 bytes.*capabilities\.resources\.workdir_max_bytes/);
    assert.deepEqual(folders(), []);
  }, { worker: "capabilities:\n  resources:\n    workdir_max_bytes: 5\n" }));

Deno.test("bytes that are not the approved ones are not launched", () =>
  parent(async ({ folders, launch }) => {
    await using other = new RoostHome();
    await other.install("worker", "# other bytes\n");
    const result = await failure(launch("exit 0", { session: { stores: [other.store] } }));
    assert.match(result.reason, /not the capsule that was approved/);
    assert.deepEqual(folders(), []);
  }));

Deno.test("a child that is listed for a snapshot starts in a copy, and is told what it holds", () =>
  parent(async ({ session, door, note, launch }) => {
    const script = `cat code.ts > $notes/code; cat > $notes/input; ${ready(door.url)}; exec sleep 60`;
    const result = await launch(script, { session: { snapshots: ["local/worker"] } });
    assert.equal(result.status, "started", JSON.stringify(result));
    const { child } = result as Extract<ChildLaunchResult, { status: "started" }>;
    await child.end();
    assert.equal(note("code"), "parent's code");
    const [, report] = note("input").split("\n");
    assert.deepEqual(JSON.parse(report!), child.snapshot);
    assert.deepEqual(child.snapshot, {
      source: session.workdir,
      files: 1,
      directories: 0,
      links: 0,
      bytes: 13,
      skipped: [],
    });
  }));

Deno.test("given up at each step, the launch answers when the child is gone", () =>
  parent(async ({ door, alive, launch, session }) => {
    const long = "trap '' TERM; while :; do sleep 0.05; done";
    const abortAfter = (ms: number) => {
      const given = new AbortController();
      setTimeout(() => given.abort(), ms);
      return given.signal;
    };
    const already = await failure(launch("exit 0", { signal: AbortSignal.abort() }));
    assert.equal(already.reason, "the delegating task was cancelled");
    const hanging = await failure(launch("exit 0", {
      signal: abortAfter(30),
      session: {
        registration: {
          ...session.registration,
          spawn: (_name, _version, signal) =>
            new Promise((resolve) =>
              signal.addEventListener("abort", () => resolve({ granted: false, kind: "failed", reason: "given up" }))
            ),
        },
      },
    }));
    assert.equal(hanging.reason, "the delegating task was cancelled");
    for (const script of [long, `${ready("127.0.0.1:1")}; ${long}`]) {
      const result = await failure(launch(script, { signal: abortAfter(250) }));
      assert.equal(result.reason, "the delegating task was cancelled");
      assert.deepEqual(alive(), []);
    }
    assert.deepEqual(door.sent, []);
  }));

Deno.test("what a child says last is quoted in bounds", () =>
  parent(async ({ launch }) => {
    const { reason } = await failure(launch("head -c 9000000 /dev/zero | tr '\\0' x >&2; exit 1"));
    assert.ok(reason.length <= 4_001);
    const many = await failure(
      launch("for i in $(seq 19); do printf '%0999d\\n' $i >&2; done; echo the cause >&2; exit 1"),
    );
    assert.ok(many.reason.length <= 4_001);
    assert.match(many.reason, /could not be launched: it ended.*; its last words:\n…[^]*\nthe cause$/);
  }));
