import assert from "node:assert/strict";
import { checkoutHelper } from "./confine_helper.ts";
import type { CommandRecord } from "./confine_records.ts";
import { probeHost } from "./host_probe.ts";
import { ConfinedPlace, CONTAINED_TIERS } from "./testing/confined_place.ts";

const helper = await checkoutHelper();

/** Tiers on which a command has a mount namespace, each as the tests lay it out. */
const MOUNTED = CONTAINED_TIERS;

/** Runs each line as a script of its own and gives those that succeeded. */
async function succeeding(
  place: ConfinedPlace,
  lines: readonly string[],
  tier: typeof MOUNTED[number],
  records: CommandRecord[],
) {
  const script = lines.map((line, i) => `(${line}) >/dev/null 2>&1 && echo ${i}`).join("\n");
  const end = await place.sh(`${script}\ntrue`, { tier, records });
  assert.deepEqual(end.failure, null);
  return end.stdout.trim().split("\n").filter((line) => line !== "").map((line) => lines[Number(line)]!);
}

function trusted(place: ConfinedPlace): CommandRecord[] {
  Deno.mkdirSync(`${place.workdir}/project/.murmur`, { recursive: true });
  place.file("project/murmur.yaml", "name: x\n");
  place.file("project/.murmur/config.yaml", "a: 1\n");
  place.file("project/other", "free\n");
  place.file("project/.env", "");
  return [
    { op: "protect", how: "dir", path: `${place.workdir}/project` },
    { op: "protect", how: "ro", path: `${place.workdir}/project/murmur.yaml` },
    { op: "protect", how: "ro", path: `${place.workdir}/project/.murmur` },
    { op: "protect", how: "ro", path: `${place.workdir}/project/.env` },
  ];
}

const ATTACKS_ON_TRUSTED = [
  "echo x > project/murmur.yaml",
  "echo x >> project/murmur.yaml",
  "truncate -s 0 project/murmur.yaml",
  "chmod 777 project/murmur.yaml",
  "touch -d 2000-01-01 project/murmur.yaml",
  "rm -f project/murmur.yaml",
  "mv project/murmur.yaml away",
  "echo x > new && mv -f new project/murmur.yaml",
  "ln project/murmur.yaml hard && echo x > hard",
  "ln -sf /dev/null project/murmur.yaml",
  "echo x > project/.env",
  "echo x > project/.murmur/config.yaml",
  "echo x > project/.murmur/new",
  "mkdir project/.murmur/dir",
  "rm -rf project/.murmur",
  "mv project/.murmur away",
  "mv project away",
  "rm -rf project",
  "cp -r project copy && rm -rf project && mv copy project",
];

Deno.test("a trusted file in the work folder is out of a command's reach by every way", async (t) => {
  for (const tier of MOUNTED) {
    await t.step(tier, async () => {
      await using place = new ConfinedPlace(helper);
      const protect = trusted(place);
      const config = () => Deno.readTextFileSync(`${place.workdir}/project/.murmur/config.yaml`);
      for (const attack of ATTACKS_ON_TRUSTED) {
        assert.deepEqual(await succeeding(place, [attack], tier, protect), [], attack);
        assert.equal(Deno.readTextFileSync(`${place.workdir}/project/murmur.yaml`), "name: x\n", attack);
        assert.equal(config(), "a: 1\n", attack);
        for (const left of ["new", "hard", "away", "copy"]) {
          await Deno.remove(`${place.workdir}/${left}`, { recursive: true }).catch(() => {});
        }
        // What an attack could take lay beside them, and is put back.
        place.file("project/other", "free\n");
      }
      // Beside them the folder is the command's, and they may be read.
      const use = ["echo y > project/other", "grep -q name project/murmur.yaml", "mv project/other project/another"];
      assert.deepEqual(await succeeding(place, use, tier, protect), use);
    });
  }
});

Deno.test("without the guards every one of those attacks works", async () => {
  for (const tier of MOUNTED) {
    for (const attack of ATTACKS_ON_TRUSTED) {
      await using place = new ConfinedPlace(helper);
      trusted(place);
      assert.deepEqual(await succeeding(place, [attack], tier, []), [attack], `${tier}: ${attack}`);
    }
  }
});

Deno.test("a guard follows no link that the agent laid", async () => {
  await using place = new ConfinedPlace(helper);
  trusted(place);
  await Deno.rename(`${place.workdir}/project`, `${place.workdir}/real`);
  await Deno.symlink("real", `${place.workdir}/project`);
  for (const tier of MOUNTED) {
    const end = await place.sh("echo ran", {
      tier,
      records: [{ op: "protect", how: "ro", path: `${place.workdir}/project/murmur.yaml` }],
    });
    assert.equal(end.failure?.stage, tier === "sealed" ? "sealed-root" : "mounts");
    assert.equal(end.stdout, "");
  }
});

Deno.test("/tmp is the session's folder, and what is granted below it stays where it is", async () => {
  // The host's /tmp may hold files of any name.
  const name = `new-${crypto.randomUUID()}`;
  for (const tier of ["full", "seccomp"] as const) {
    await using place = new ConfinedPlace(helper, "/tmp");
    const readable = `${place.outside}/readable`;
    Deno.mkdirSync(readable);
    Deno.writeTextFileSync(`${readable}/file`, "read me\n");
    const rule: CommandRecord[] = tier === "full"
      ? [{ op: "rule", rights: "RL", presence: "req", path: readable }]
      : [];
    const records: CommandRecord[] = [
      ...rule,
      { op: "rebind", exec: true, path: readable },
      { op: "tmpmap", exec: false, path: place.tmp },
    ];
    const end = await place.sh(
      `echo mine > /tmp/${name}; cat ${readable}/file; echo x > ${readable}/file; echo w > ${place.workdir}/w; pwd;` +
        `ls ${place.outside}; cp /bin/true /tmp/${name}-t; /tmp/${name}-t; echo $?`,
      { tier, records },
    );
    assert.equal(end.stdout, `read me\n${place.workdir}\nreadable\n126\n`, end.stderr);
    assert.equal(Deno.readTextFileSync(`${place.tmp}/${name}`), "mine\n");
    assert.equal(Deno.readTextFileSync(`${readable}/file`), "read me\n");
    assert.equal(Deno.readTextFileSync(`${place.workdir}/w`), "w\n");
    // The next command finds it, the host's own /tmp it does not.
    const again = await place.sh(`cat /tmp/${name}; ls -1 /tmp`, { tier, records });
    const [text, ...listed] = again.stdout.split("\n");
    assert.equal(text, "mine");
    assert.ok(listed.includes(name));
    const host = [...Deno.readDirSync("/tmp")].map(({ name }) => name).filter((name) => !place.root.endsWith(name));
    for (const foreign of host) assert.ok(!listed.includes(foreign), foreign);
  }
});

Deno.test("a link laid in /tmp does not choose what a granted folder covers", async () => {
  await using place = new ConfinedPlace(helper, "/tmp");
  // As an earlier command could have left it.
  const first = place.root.split("/")[2]!;
  await Deno.symlink("/usr", `${place.tmp}/${first}`);
  for (const tier of ["full", "seccomp"] as const) {
    const end = await place.sh("echo ran", { tier, records: [{ op: "tmpmap", exec: false, path: place.tmp }] });
    assert.equal(end.failure?.stage, "mounts");
    assert.match(end.failure.reason, /^place .*([Ss]ymbolic link|Not a directory)/);
    assert.equal(end.stdout, "");
  }
});

Deno.test("an executable work folder runs what is written there, and nothing else changes", async () => {
  for (const tier of MOUNTED) {
    await using place = new ConfinedPlace(helper);
    const end = await place.sh("cp /bin/true t && ./t && echo ran; touch /usr/x || echo refused", {
      tier,
      workdirExec: true,
    });
    assert.equal(end.stdout, "ran\nrefused\n", `${tier}: ${end.stderr}`);
  }
});

Deno.test("ordinary work in the work folder is undisturbed", async () => {
  const script = `
    mkdir -p a/b && echo one > a/b/f && mv a/b/f a/g && ln a/g a/h && ln -s g a/s && cat a/s
    chmod 600 a/g && touch -d 2001-02-03 a/g && mkfifo a/p && rm a/h && rm -r a/b && cp a/g a/i
    echo two >> a/g && truncate -s 3 a/g && cat a/g && ls a 2>/dev/null | tr '\\n' ' '; echo x >/dev/null && echo end`;
  for (const tier of MOUNTED) {
    await using place = new ConfinedPlace(helper);
    const end = await place.sh(script, { tier });
    assert.equal(end.stdout, "one\noneg i p s end\n", `${tier}: ${end.stderr}`);
  }
});

Deno.test("a composed root holds what was named, and the host is gone from it", async () => {
  await using place = new ConfinedPlace(helper);
  const end = await place.sh(
    `for p in /etc/shadow /etc/passwd /home /root /run /sys /var /boot /.mur-oldroot /dev/zero ${place.outside}; do
       [ -e $p ] && echo $p; done
     cd / && pwd; echo x > /new; mkdir /dir; echo x > /dev/new; echo x > /etc/new; mknod /dev/n c 1 3; ls / /dev /etc
     cd /tmp && echo t > t && cat t; cat /proc/self/status; exit 7`,
    { tier: "sealed" },
  );
  assert.equal(end.stdout, "/\nt\n");
  assert.equal(end.exitCode, 7);
  assert.equal(Deno.readTextFileSync(`${place.tmp}/t`), "t\n");
  assert.deepEqual([...Deno.readDirSync("/run")].filter(({ name }) => name === ".mur-oldroot"), []);
});

Deno.test("a composed root that can't be built runs nothing and says which step", async () => {
  await using place = new ConfinedPlace(helper);
  const good = place.records("/bin/sh", ["sh", "-c", "echo ran"], { tier: "sealed" });
  const insert = (...more: CommandRecord[]) => good.toSpliced(good.findIndex(({ op }) => op === "seal"), 0, ...more);
  const cases: readonly (readonly [RegExp, readonly CommandRecord[]])[] = [
    [
      /^bind \/opt failed: No such file/,
      insert({ op: "mkdir", path: "/opt" }, {
        op: "bind",
        access: "ro",
        presence: "req",
        source: `${place.root}/none`,
        target: "/opt",
      }),
    ],
    [
      /^bind \/nowhere failed: No such file/,
      insert({ op: "bind", access: "ro", presence: "req", source: place.outside, target: "/nowhere" }),
    ],
    [/^mkdir \/a\/b failed: No such file/, insert({ op: "mkdir", path: "/a/b" })],
    [/^symlink \/usr failed: File exists/, insert({ op: "symlink", target: "x", path: "/usr" })],
    // A link in the new root is not followed to a place of its choice.
    [
      /^bind \/link failed: (Symbolic link loop|Too many levels)/,
      insert({ op: "symlink", target: "etc", path: "/link" }, {
        op: "bind",
        access: "ro",
        presence: "req",
        source: place.outside,
        target: "/link",
      }),
    ],
    [
      /^base .*none failed: No such file/,
      good.map((record) => record.op === "base" ? { op: "base", path: `${place.root}/none` } : record),
    ],
  ];
  for (const [reason, records] of cases) {
    const end = await place.runRecords(records);
    assert.equal(end.failure?.stage, "sealed-root", String(reason));
    assert.match(end.failure.reason, reason);
    assert.equal(end.stdout, "");
  }
  const optional = insert({ op: "mkdir", path: "/opt" }, {
    op: "bind",
    access: "ro",
    presence: "opt",
    source: `${place.root}/none`,
    target: "/opt",
  });
  assert.equal((await place.runRecords(optional)).stdout, "ran\n");
});

Deno.test("a command sees its own processes alone; where that can't be the host's, and it is told beforehand", async () => {
  await using place = new ConfinedPlace(helper);
  const own = await place.sh("ls -d /proc/[0-9]* | wc -l", { tier: "seccomp" });
  // Init, the shell and the two of the line.
  assert.ok(Number(own.stdout) <= 4, own.stdout);
  if (Deno.uid() !== 0) return;
  // As a container has it: a part of /proc is covered.
  const covered = place.file(
    "covered",
    `#!/bin/sh\nexec unshare -m sh -c 'mount -t tmpfs none /proc/irq && exec "$@"' sh ${helper} "$@"\n`,
    0o755,
  );
  const probe = await probeHost(covered);
  assert.equal(probe.ownProc, false);
  assert.equal(probe.sealed, "ok");
  assert.equal(probe.privateMounts, "ok");
  for (const tier of ["seccomp", "sealed"] as const) {
    const end = await place.sh("ls -d /proc/[0-9]* | wc -l; echo x > /proc/sys/kernel/hostname || echo refused", {
      tier,
      helper: covered,
    });
    assert.match(end.stdout, /refused\n$/, tier);
    // Landlock keeps the composed root's from being listed.
    if (tier === "seccomp") assert.ok(Number(end.stdout.split("\n")[0]) > 4, end.stdout);
  }
});

Deno.test("a command joins the control groups it is given, with everything it starts", async () => {
  await using place = new ConfinedPlace(helper);
  const group = `/sys/fs/cgroup/pids/mur-test-${crypto.randomUUID()}`;
  try {
    Deno.mkdirSync(group);
  } catch {
    return console.log("no control group can be made here: joining one is not tested");
  }
  try {
    await Deno.writeTextFile(`${group}/pids.max`, "12");
    const end = await place.sh(
      "cat /proc/self/cgroup; i=0; while [ $i -lt 20 ]; do sleep 1 & i=$((i+1)); done; echo all",
      { tier: "seccomp", records: [{ op: "cgroup", path: `${group}/cgroup.procs` }] },
    );
    assert.match(end.stdout, new RegExp(`pids:${group.slice("/sys/fs/cgroup/pids".length)}\n`));
    assert.doesNotMatch(end.stdout, /^all$/m);
    assert.match(end.stderr, /fork/i);
    assert.equal((await Deno.readTextFile(`${group}/cgroup.procs`)).trim(), "");
  } finally {
    await Deno.remove(group);
  }
});
