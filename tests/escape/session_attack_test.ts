/**
 * The attack program as the agent of real sessions has it: on every tier that a host can lead to, as this user, as one
 * without any capability, and as uid 0 without `CAP_SYS_ADMIN` (spec containment 1.3, 18, 20).
 *
 * Hosts that have less than this one are had by refusing calls to the whole of `mur` (`lesser_host.c`).
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import { agentProject, capsule, shownResults } from "../support/agent_project.ts";
import { AS_NOBODY } from "../support/mur_process.ts";
import { canMount } from "../support/own_mounts.ts";
import { buildTestProgram } from "../support/test_program.ts";
import { answersOf, leaks, type Wall } from "./command_attempts.ts";
import { loaderOf, prepare, Targets } from "./command_targets.ts";

/** A host, what a launch asks of it, and what it gives. */
interface Host {
  readonly name: string;
  readonly lesser: string | null;
  readonly floor: "advisory" | "scoped" | "sealed";
  readonly achieved: "advisory" | "scoped" | "sealed";
  readonly mechanism: string;
  readonly walls: readonly Wall[];
  /** Attempts on what every command is granted there. */
  readonly granted: readonly string[];
}

const HOSTS: readonly Host[] = [
  {
    name: "sealed",
    lesser: null,
    floor: "sealed",
    achieved: "sealed",
    mechanism: "mountns+pivot_root+landlock+seccomp",
    walls: ["landlock", "root", "scope"],
    // The accounts are its own.
    granted: ["read_device", "read_account"],
  },
  {
    name: "scoped",
    lesser: null,
    floor: "scoped",
    achieved: "scoped",
    mechanism: "landlock+seccomp",
    walls: ["landlock", "mounts", "scope"],
    granted: ["read_device"],
  },
  {
    name: "Landlock without mounts",
    lesser: "mounts",
    floor: "advisory",
    achieved: "advisory",
    mechanism: "landlock+seccomp",
    walls: ["landlock", "scope"],
    granted: ["read_device"],
  },
  {
    name: "no Landlock",
    lesser: "landlock",
    floor: "advisory",
    achieved: "advisory",
    mechanism: "seccomp-only",
    walls: ["mounts", "truncation"],
    granted: ["read_device"],
  },
  {
    name: "neither Landlock nor mounts",
    lesser: "landlock,mounts",
    floor: "advisory",
    achieved: "advisory",
    mechanism: "seccomp-only",
    walls: ["truncation"],
    granted: ["read_device"],
  },
];

const ALWAYS: readonly Wall[] = ["filter", "network", "pids", "capabilities", "descriptors"];

/** Who `mur` runs as. */
interface User {
  readonly name: string;
  readonly under: readonly string[];
  readonly uid: number;
}

const USERS: readonly User[] = [
  { name: "this user", under: [], uid: Deno.uid()! },
  { name: "a user without any capability", under: AS_NOBODY, uid: 65534 },
  ...(Deno.uid() === 0
    ? [{
      name: "root without CAP_SYS_ADMIN",
      under: ["setpriv", "--inh-caps=-all", "--bounding-set=-sys_admin,-net_admin,-sys_ptrace,-sys_module,-sys_rawio"],
      uid: 0,
    }]
    : []),
];

async function attack(host: Host, user: User): Promise<void> {
  await using project = await agentProject(capsule({
    capabilities: { shell: { allow: ["command_attack", "sh", "cp"] }, containment: host.floor },
    lifecycle: { shell_grace_secs: 60 },
  }));
  // Not below /tmp, which is the session's own for a command.
  const outside = await Deno.makeTempDir({ dir: "/var/tmp" });
  await using _outside = { [Symbol.asyncDispose]: () => Deno.remove(outside, { recursive: true }) };
  const bin = `${project.root}/bin`;
  const place = { outside, workdir: `${project.root}/work`, tmp: `${project.root}/scratch` };
  for (const path of [bin, place.workdir, place.tmp]) await Deno.mkdir(path);
  const program = await buildTestProgram("command_attack", bin);
  await prepare(place, program);
  const lesser = host.lesser === null ? [] : [await buildTestProgram("lesser_host", bin), host.lesser];
  await using targets = await Targets.open(place, program);
  const tmp = host.lesser?.includes("mounts") ? '"$TMPDIR"' : "/tmp";
  const scratch = host.lesser?.includes("mounts") ? "$TMPDIR" : "/tmp";
  const sh = (command: string): JsonObject => ({ name: "sh", input: { command } });
  const run = await project.run({
    workdir: place.workdir,
    under: [...user.under, ...lesser],
    env: { PATH: `${bin}:${Deno.env.get("PATH")}` },
    task: {
      turns: [
        {
          calls: [
            sh(`cp attack ${tmp}/attack`),
            // The shell alone knows where its own folder is.
            sh(
              `exec command_attack ${
                targets.arguments(place, scratch, loaderOf()).map((each) => `"${each}"`).join(" ")
              }`,
            ),
          ],
        },
        { show: "results" },
      ],
    },
  });
  assert.equal(run.status, 0, run.stderr);
  const [start] = run.events("session_start");
  const grants = start!.effective_grants as JsonObject;
  assert.deepEqual([start!.containment_achieved, grants.enforcement_tier], [host.achieved, host.mechanism]);
  const [copied, attempted] = shownResults(run);
  assert.match(copied!.text, /\nExit code: 0\n/, copied!.text);
  const output = /\nStdout:\n([\s\S]*?)\nStderr:\n/.exec(attempted!.text)?.[1] ?? "";
  const walls = new Set([...ALWAYS, ...host.walls]);
  const found = leaks(answersOf(output), walls, user.uid).filter((name) => !host.granted.includes(name));
  assert.deepEqual(found, [], attempted!.text);
  assert.equal(targets.datagrams, 0);
  assert.deepEqual(await targets.end(), walls.has("landlock") || walls.has("mounts") ? [] : ["typed"]);
  if (walls.has("mounts") || walls.has("root")) {
    assert.equal(await Deno.readTextFile(`${outside}/victim`), "victim");
    for (const i of [1, 2, 3, 4]) {
      assert.equal(await Deno.readTextFile(`${outside}/truncated-${i}`), `truncated-${i}`);
    }
  }
  // What it leaves in its own folder runs with nobody's rights but those of who starts it.
  for await (const { name } of Deno.readDir(place.workdir)) {
    assert.equal((await Deno.lstat(`${place.workdir}/${name}`)).mode! & 0o6000, 0, name);
  }
}

for (const host of HOSTS) {
  for (const user of USERS) {
    Deno.test(`session, ${host.name}, ${user.name}: no attempt gets through a wall that must stop it`, () =>
      attack(host, user));
  }
}

Deno.test("a host that makes no namespaces is told what is missing, and how to get it", async () => {
  await using project = await agentProject(capsule({ capabilities: { shell: { allow: ["sh"] } } }));
  const under = [await buildTestProgram("lesser_host", project.root), "namespaces"];
  const task = { turns: [{ calls: [{ name: "sh", input: { command: "echo ran > ran" } }] }] };
  const refused = await project.run({ under, task });
  assert.equal(refused.status, 1);
  assert.match(
    refused.stderr,
    /^error\[E-CAP-005\]: [^\n]*network namespace of their own[^\n]*\n\s+hint: [^\n]*--cap-add SYS_ADMIN/m,
  );
  for (const floor of ["scoped", "sealed"]) {
    const { status, stderr } = await project.run({ under, task, args: ["--containment", floor] });
    assert.equal(status, 1);
    assert.match(stderr, /^error\[E-CAP-003\]: [^\n]*unshare[^\n]*\n\s+hint: [^\n]*--cap-add SYS_ADMIN/m);
  }
  assert.deepEqual([...Deno.readDirSync(project.project)].map(({ name }) => name), ["murmur.yaml"]);
  const doctor = await project.mur(["doctor"], { under });
  assert.match(doctor.stdout, /namespace/);
});

/** In front of a command: a kernel that says it runs AppArmor, and whether that keeps namespaces to named programs. */
function withAppArmor(restricted: string): string[] {
  const script = "p=/sys/module/apparmor/parameters && mount -t tmpfs tmpfs /sys/module && mkdir -p $p && " +
    'echo Y > $p/enabled && echo "$1" > $p/restrict_unprivileged_userns && shift && exec "$@"';
  return ["unshare", "-r", "-m", "sh", "-c", script, "sh", restricted];
}

Deno.test({
  name: "where AppArmor keeps namespaces from the helper, launches are refused with the command that mends it",
  ignore: !canMount(),
  fn: async () => {
    await using project = await agentProject(capsule({ capabilities: { shell: { allow: ["sh"] } } }));
    const task: JsonObject = { turns: [{ calls: [{ name: "sh", input: { command: "echo ran" } }] }, { text: "done" }] };
    const refused = await project.run({ under: withAppArmor("Y"), task });
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /^error\[E-CAP-005\]: [^\n]*AppArmor[^\n]*\n\s+hint: [^\n]*sudo mur setup/m);
    // The class below is met all the same, as far as was tried; its commands are refused.
    for (const [floor, code] of [["sealed", "003"], ["scoped", "005"]] as const) {
      const { status, stderr } = await project.run({ under: withAppArmor("Y"), args: ["--containment", floor], task });
      assert.equal(status, 1);
      assert.match(
        stderr,
        new RegExp(`^error\\[E-CAP-${code}\\]: [^\\n]*AppArmor[^\\n]*\\n\\s+hint: [^\\n]*sudo mur setup`, "m"),
      );
    }
    const doctor = await project.mur(["doctor"], { under: withAppArmor("Y") });
    assert.match(doctor.stdout, /userns grant: +withheld/);
    // What is switched off for the whole host is no obstacle, and is told.
    const off = await project.run({ under: withAppArmor("N"), task });
    assert.equal(off.status, 0, off.stderr);
    assert.match(off.stderr, /warning\[W-SEC-013\]/);
    assert.equal(off.events("session_start")[0]!.userns_grant, "restriction_disabled_host_wide");
  },
});
