import assert from "node:assert/strict";
import { checkoutHelper } from "../../sandbox/confine_helper.ts";
import type { CommandRecord, ConfineTier } from "../../sandbox/confine_records.ts";
import { probeHost } from "../../sandbox/host_probe.ts";
import { ConfinedPlace } from "../../sandbox/testing/confined_place.ts";
import { buildTestProgram } from "../support/test_program.ts";
import { answersOf, ATTEMPTS, leaks, type Wall } from "./command_attempts.ts";
import { loaderOf, prepare, Targets } from "./command_targets.ts";

/** The walls that hold nothing by themselves on the tiers where an executable work folder is wanted. */
const ALWAYS: readonly Wall[] = ["filter", "network", "pids", "capabilities", "descriptors"];

interface Layout {
  readonly what: string;
  readonly tier: ConfineTier;
  readonly mounts?: boolean;
  readonly records?: readonly CommandRecord[];
  readonly walls: readonly Wall[];
}

const LAYOUTS: readonly Layout[] = [
  { what: "sealed", tier: "sealed", walls: ["landlock", "root"] },
  { what: "full", tier: "full", walls: ["landlock", "mounts"] },
  { what: "full without mounts", tier: "full", mounts: false, walls: ["landlock", "truncation"] },
  { what: "seccomp", tier: "seccomp", walls: ["mounts", "truncation"] },
  { what: "seccomp without mounts", tier: "seccomp", mounts: false, walls: ["truncation"] },
  ...[1, 2].flatMap((atMost): Layout[] => [
    { what: `sealed, ABI ${atMost}`, tier: "sealed", records: [{ op: "abi", atMost }], walls: ["root", "truncation"] },
    { what: `full, ABI ${atMost}`, tier: "full", records: [{ op: "abi", atMost }], walls: ["mounts", "truncation"] },
    {
      what: `full without mounts, ABI ${atMost}`,
      tier: "full",
      mounts: false,
      records: [{ op: "abi", atMost }],
      walls: ["truncation"],
    },
  ]).map((layout) => ({ ...layout, walls: [...layout.walls, "landlock"] as const })),
  { what: "full, ABI 3", tier: "full", records: [{ op: "abi", atMost: 3 }], walls: ["landlock", "mounts"] },
  {
    what: "full without mounts, ABI 3",
    tier: "full",
    mounts: false,
    records: [{ op: "abi", atMost: 3 }],
    walls: ["landlock", "truncation"],
  },
  {
    what: "full without a PID namespace",
    tier: "full",
    records: [{ op: "pidns", own: false }],
    walls: ["landlock", "mounts"],
  },
];

async function attackAll(helper: string, what: string, layouts: readonly Layout[], t: Deno.TestContext) {
  const directory = await Deno.makeTempDir();
  await using place = new ConfinedPlace(helper);
  try {
    const program = await buildTestProgram("command_attack", directory);
    const loader = loaderOf();
    const { landlockAbi } = await probeHost(helper);
    for (const layout of layouts) {
      await t.step(`${layout.what}${what}`, async () => {
        await prepare(place, program);
        await using targets = await Targets.open(place, program);
        const scratch = layout.tier === "sealed" ? "/tmp" : place.tmp;
        const argv = ["attack", ...targets.arguments(place, scratch, loader)];
        // It lies where programs may run, and may be read where they are.
        const rule: CommandRecord[] = layout.tier === "seccomp"
          ? []
          : [{ op: "rule", rights: "RX", presence: "req", path: program }];
        const root: CommandRecord[] = [];
        const end = layout.tier === "sealed"
          ? await runInRoot(place, program, argv, [...rule, ...layout.records ?? []])
          : await place.run(program, argv, {
            tier: layout.tier,
            records: [...rule, ...root, ...layout.records ?? []],
            ...(layout.mounts === undefined ? {} : { mounts: layout.mounts }),
          });
        assert.deepEqual(end.failure, null);
        assert.equal(end.exitCode, 0, end.stderr);
        const without = layout.records?.some((record) => record.op === "pidns") ? "pids" : null;
        const walls = new Set([...ALWAYS, ...layout.walls].filter((wall) => wall !== without));
        // Signals and abstract sockets are scoped from ABI 6 on.
        const old = layout.records?.some((record) => record.op === "abi") || landlockAbi < 6;
        if (walls.has("landlock") && !old) walls.add("scope");
        assert.deepEqual(leaks(answersOf(end.stdout), walls), []);
        assert.equal(targets.datagrams, 0);
        // What a socket of the host takes, the list of calls alone keeps away; a terminal, where no file is in reach.
        const typed = walls.has("landlock") || walls.has("mounts") || walls.has("root") ? [] : ["typed"];
        assert.deepEqual(await targets.end(), typed);
        if (walls.has("mounts") || walls.has("root")) {
          assert.equal(await Deno.readTextFile(`${place.outside}/victim`), "victim");
          for (const i of [1, 2, 3, 4]) {
            assert.equal(await Deno.readTextFile(`${place.outside}/truncated-${i}`), `truncated-${i}`);
          }
        }
      });
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
    await Deno.remove("/dev/shm/mur-attack").catch(() => {});
  }
}

/** In a composed root the program has to be bound as well, before the seal. */
async function runInRoot(place: ConfinedPlace, program: string, argv: string[], extra: readonly CommandRecord[]) {
  const records = place.records(program, argv, { tier: "sealed" });
  const seal = records.findIndex((record) => record.op === "seal");
  const bind: CommandRecord[] = [
    { op: "mkfile", path: "/attack" },
    { op: "bind", access: "ro", presence: "req", source: program, target: "/attack" },
  ];
  const changed = records.toSpliced(seal, 0, ...bind).map((record) =>
    record.op === "exec" ? { ...record, path: "/attack" } : record
  );
  return await place.runRecords([...changed, ...extra]);
}

Deno.test("without containment the attempts get through", async () => {
  const directory = await Deno.makeTempDir();
  await using place = new ConfinedPlace(await checkoutHelper());
  try {
    const program = await buildTestProgram("command_attack", directory);
    await prepare(place, program);
    await using targets = await Targets.open(place, program);
    const { stdout, success } = await new Deno.Command(program, {
      args: targets.arguments(place, place.tmp, loaderOf()),
      stdin: "null",
    }).output();
    assert.ok(success);
    const answers = answersOf(new TextDecoder().decode(stdout));
    assert.deepEqual([...answers.keys()].sort(), Object.keys(ATTEMPTS).sort());
    const stopped = Object.entries(ATTEMPTS)
      .filter(([, [control]]) => control === "open" || (control === "root" && Deno.uid() === 0))
      .filter(([name]) => answers.get(name) !== "open")
      .map(([name]) => `${name}: ${answers.get(name)}`);
    assert.deepEqual(stopped, []);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(targets.datagrams, 1);
    assert.deepEqual(await targets.end(), ["by-name", "by-raw", "typed"]);
  } finally {
    await Deno.remove(directory, { recursive: true });
    await Deno.remove("/dev/shm/mur-attack").catch(() => {});
  }
});

Deno.test("no attempt gets through a wall that must stop it", async (t) => {
  await attackAll(await checkoutHelper(), "", LAYOUTS, t);
});

Deno.test("the walls are the same for uid 0 without CAP_SYS_ADMIN, as containers have it", async (t) => {
  if (Deno.uid() !== 0) return console.log("this is no root: nothing to take away");
  const directory = await Deno.makeTempDir();
  try {
    const inContainer = async (what: string, capabilities: string) => {
      const wrapper = `${directory}/${what}`;
      await Deno.writeTextFile(
        wrapper,
        `#!/bin/sh\nexec setpriv --inh-caps=-all --bounding-set=${capabilities} ${await checkoutHelper()} "$@"\n`,
        { mode: 0o755 },
      );
      return wrapper;
    };
    const helper = await inContainer("container", "-sys_admin,-net_admin,-sys_ptrace,-sys_module,-sys_rawio");
    const probe = await probeHost(helper);
    assert.equal(probe.network, "ok");
    await attackAll(helper, ", no CAP_SYS_ADMIN", LAYOUTS.slice(0, 4), t);
    // Root's own number can be mapped only by who holds this one.
    const bare = await inContainer("bare", "-sys_admin,-setfcap");
    const refused = await probeHost(bare);
    assert.equal(refused.network, "map-denied");
    assert.equal(refused.sealed, "map-denied");
    assert.equal(refused.privateMounts, "map-denied");
    assert.equal(refused.pidNamespace, false);
    await using place = new ConfinedPlace(bare);
    const end = await place.sh("echo ran");
    assert.equal(end.failure?.stage, "netns");
    assert.match(end.failure.reason, /^id maps: /);
    assert.equal(end.stdout, "");
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
