import assert from "node:assert/strict";
import { buildLauncher, type Launcher } from "../scripts/launcher_build.ts";
import { hostTarget } from "../scripts/build_target.ts";
import { inCache, type PortableFile, portableFile, storedPart } from "../scripts/portable_form.ts";
import { canMount, type OwnMount, withOwnMounts } from "../tests/support/own_mounts.ts";

const MOUNTS = canMount();
const ROOT = Deno.build.os === "linux" && Deno.uid() === 0;

/** Stands in for Deno: says what it was started with. The launcher executes whatever its file carries. */
const PROGRAM = `#!/bin/sh
for each; do printf 'arg:%s\\n' "$each"; done
printf 'umask:%s\\n' "$(umask)"
/usr/bin/env | LC_ALL=C /usr/bin/sort | /bin/sed 's/^/env:/'
`;

const text = (value: string) => new TextEncoder().encode(value);

function file(path: string, bytes: Uint8Array<ArrayBuffer>, executable = false): PortableFile {
  return { path, bytes, executable };
}

/** Bytes that do not compress. */
function noise(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  return bytes;
}

let built: Promise<{ readonly plain: Launcher; readonly best: Launcher }> | null = null;

/** The launcher with and, where its library is installed, without the decompressor: built once for all tests. */
function launchers(): Promise<{ readonly plain: Launcher; readonly best: Launcher }> {
  return built ??= (async () => {
    const folder = await Deno.makeTempDir();
    try {
      return {
        plain: await buildLauncher(hostTarget(), `${folder}/plain`, false),
        best: await buildLauncher(hostTarget(), `${folder}/best`),
      };
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  })();
}

/** Writes a program in one file whose parts hold a few small files, and `padding` bytes. */
async function writeProgram(
  path: string,
  { launcher, padding = 100_000, label = "one" }: {
    readonly launcher?: Launcher;
    readonly padding?: number;
    readonly label?: string;
  } = {},
): Promise<{ readonly directories: readonly string[]; readonly bytes: Uint8Array<ArrayBuffer> }> {
  const { bytes: start, decompresses } = launcher ?? (await launchers()).best;
  const engine = await storedPart({ name: "engine", files: [file("engine", text(PROGRAM), true)] }, decompresses);
  const program = await storedPart({
    name: "program",
    files: [
      file("a/b/deep.txt", text("deep")),
      file("empty", text("")),
      file("main.txt", text(label)),
      file("noise", noise(padding)),
      file("zeros", new Uint8Array(3_000_000)),
    ],
  }, decompresses);
  const pieces = await portableFile(start, [engine, program], { part: engine, path: "engine" }, [
    "named",
    "--flag=with space",
    inCache(program, "main.txt"),
  ]);
  const bytes = new Uint8Array(await new Blob([...pieces]).arrayBuffer());
  await Deno.writeFile(path, bytes, { mode: 0o755 });
  await Deno.chmod(path, 0o755);
  return { directories: [engine.directory, program.directory], bytes };
}

interface Started {
  readonly status: number;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly stdout: string;
  readonly stderr: string;
}

async function start(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd = "/",
): Promise<Started> {
  const { code, stdout, stderr } = await new Deno.Command(command[0]!, {
    args: command.slice(1),
    clearEnv: true,
    env,
    cwd,
    stdin: "null",
  }).output();
  const out = new TextDecoder().decode(stdout);
  const lines = (kind: string) =>
    out.split("\n").filter((line) => line.startsWith(`${kind}:`)).map((line) => line.slice(kind.length + 1));
  const pairs = lines("env").map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]);
  return {
    status: code,
    args: lines("arg"),
    env: Object.fromEntries(pairs) as Record<string, string>,
    stdout: out,
    stderr: new TextDecoder().decode(stderr),
  };
}

async function inPlace(action: (place: string) => Promise<void>): Promise<void> {
  const place = await Deno.makeTempDir({ prefix: "launcher é " });
  try {
    await action(place);
  } finally {
    // Some tests take rights away.
    await new Deno.Command("chmod", { args: ["-R", "u+rwX", place] }).output();
    await Deno.remove(place, { recursive: true });
  }
}

function refusal({ status, stdout, stderr }: Started, code: string, says: RegExp): void {
  assert.equal(stdout, "", "nothing was run");
  assert.equal(status, 1, stderr);
  assert.match(stderr, new RegExp(`^error\\[${code}\\]: `));
  assert.match(stderr, says);
  assert.match(stderr, /\n {2}hint: .+\n$/);
}

/** What lies in a directory, the locks of a cache aside. */
function names(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name).filter((name) => !name.startsWith(".lock-")).sort();
}

Deno.test("the first start unpacks, the next only looks; arguments arrive as they were given", async () => {
  for (const kind of ["plain", "best"] as const) {
    await inPlace(async (place) => {
      const launcher = (await launchers())[kind];
      const { directories } = await writeProgram(`${place}/program`, { launcher });
      const given = ["", "a b", "-x", "--", "ü\u{1F600}", "'\"$HOME`"];
      const cache = `${place}/.cache/murmur`;
      const first = await start([`${place}/program`, ...given], { HOME: place });
      assert.equal(first.stderr, "");
      assert.deepEqual(first.args, ["--flag=with space", `${cache}/${directories[1]}/main.txt`, ...given]);
      assert.deepEqual(names(cache), [...directories].sort());
      for (
        const [path, mode] of [["", 0o700], [`/${directories[0]}/engine`, 0o700], [`/${directories[1]}/empty`, 0o600]]
      ) {
        assert.equal(Deno.statSync(`${cache}${path}`).mode! & 0o7777, mode, `${path}`);
      }
      assert.equal(Deno.readTextFileSync(`${cache}/${directories[1]}/a/b/deep.txt`), "deep");
      const before = Deno.statSync(`${cache}/${directories[1]}`);
      const second = await start([`${place}/program`, ...given], { HOME: place });
      assert.deepEqual(second.args, first.args);
      assert.equal(Deno.statSync(`${cache}/${directories[1]}`).ino, before.ino, "nothing was unpacked again");
    });
  }
});

Deno.test("no variable that configures Deno or Node gets through, every other one does", async () => {
  await inPlace(async (place) => {
    await writeProgram(`${place}/program`);
    const hostile = {
      DENO_DIR: "/tmp/evil",
      DENO_V8_FLAGS: "--prof",
      DENO_CERT: "/x",
      DENO_: "x",
      DENORT_BIN: "/x",
      NODE_OPTIONS: "--require /x",
      NODE_EXTRA_CA_CERTS: "/x",
      NPM_CONFIG_REGISTRY: "http://127.0.0.1:1",
      npm_config_registry: "http://127.0.0.1:1",
      OTEL_DENO: "true",
      OTEL_DENO_CONSOLE: "capture",
    };
    const kept = { HOME: place, PATH: "/nowhere", LANG: "C", MURMUR_ROOST_URL: "x", DENOTE: "1", XNODE_OPTIONS: "1" };
    const { env } = await start([`${place}/program`], { ...hostile, ...kept });
    const {
      DENO_DIR,
      DENO_NO_PROMPT,
      DENO_NO_UPDATE_CHECK,
      MURMUR_CACHE_DIR,
      MURMUR_MUR_BINARY,
      MURMUR_PROGRAM_FILE,
      ...others
    } = env;
    const set = new Set(["PWD", "_", "SHLVL", "OLDPWD"]);
    assert.deepEqual(Object.fromEntries(Object.entries(others).filter(([name]) => !set.has(name))), kept);
    assert.match(DENO_DIR!, new RegExp(`^${place}/\\.cache/murmur/engine-[0-9a-f]{32}/cache$`));
    assert.deepEqual([DENO_NO_PROMPT, DENO_NO_UPDATE_CHECK], ["1", "1"]);
    assert.equal(MURMUR_CACHE_DIR, `${place}/.cache/murmur`);
    assert.equal(MURMUR_PROGRAM_FILE, await Deno.realPath(`${place}/program`));
    assert.equal(MURMUR_MUR_BINARY, await Deno.realPath(`${place}/program`));
  });
});

Deno.test("children start from the same file, whatever name and link it was started by", async () => {
  await inPlace(async (place) => {
    await Deno.mkdir(`${place}/bin`);
    await writeProgram(`${place}/bin/program with space`);
    await Deno.symlink("bin/program with space", `${place}/link`);
    await Deno.copyFile(`${place}/bin/program with space`, `${place}/other`);
    const real = await Deno.realPath(place);
    const env = { HOME: place };
    assert.equal((await start(["./link"], env, place)).env.MURMUR_MUR_BINARY, `${real}/bin/program with space`);
    assert.equal((await start(["./other"], env, place)).env.MURMUR_MUR_BINARY, `${real}/other`);
    const found = await start(["/usr/bin/env", "other"], { ...env, PATH: place });
    assert.equal(found.env.MURMUR_MUR_BINARY, `${real}/other`);
    const lying = { ...env, MURMUR_MUR_BINARY: "/opt/mur", MURMUR_PROGRAM_FILE: "/opt/mur" };
    const named = await start(["./other"], lying, place);
    assert.equal(named.env.MURMUR_MUR_BINARY, "/opt/mur");
    assert.equal(named.env.MURMUR_PROGRAM_FILE, `${real}/other`);
    assert.equal(
      (await start(["./other"], { ...env, MURMUR_MUR_BINARY: "" }, place)).env.MURMUR_MUR_BINARY,
      `${real}/other`,
    );
  });
});

Deno.test("children of one that was replaced as it started start from what stands in its place", async () => {
  await inPlace(async (place) => {
    await writeProgram(`${place}/program`);
    await Deno.mkdir(`${place}/(deleted)`);
    await Deno.copyFile(`${place}/program`, `${place}/(deleted)/x (deleted)`);
    const replaced = ["/bin/sh", "-c", 'exec 3<"$1"; mv "$2" "$1"; exec /proc/self/fd/3', "sh"];
    await Deno.copyFile(`${place}/program`, `${place}/newer`);
    const env = { HOME: place, PATH: "/usr/bin:/bin" };
    const { status, stderr, env: given } = await start([...replaced, `${place}/program`, `${place}/newer`], env);
    assert.equal(status, 0, stderr);
    assert.equal(given.MURMUR_MUR_BINARY, `${await Deno.realPath(place)}/program`);
    // A name that only looks like it.
    const named = await start([`${place}/(deleted)/x (deleted)`], env);
    assert.equal(named.env.MURMUR_MUR_BINARY, `${await Deno.realPath(place)}/(deleted)/x (deleted)`);
  });
});

Deno.test("whatever the umask, what is unpacked is this user's alone and can be used, and the program has that umask", async () => {
  for (const umask of ["0000", "0002", "0077", "0777"]) {
    await inPlace(async (place) => {
      const { directories } = await writeProgram(`${place}/program`);
      const run = () =>
        start(["/bin/sh", "-c", `umask ${umask}; exec "$1"`, "sh", `${place}/program`], { HOME: place });
      for (let round = 0; round < 2; round++) {
        const { status, stdout } = await run();
        assert.equal(status, 0, umask);
        assert.ok(stdout.includes(`umask:${umask}\n`), stdout);
      }
      const cache = `${place}/.cache`;
      const program = `${cache}/murmur/${directories[1]}`;
      for (
        const [path, mode] of [
          [cache, 0o700],
          [`${cache}/murmur`, 0o700],
          [program, 0o700],
          [`${program}/a/b`, 0o700],
          [`${program}/a/b/deep.txt`, 0o600],
          [`${cache}/murmur/.lock-program`, 0o600],
        ] as const
      ) assert.equal(Deno.statSync(path).mode! & 0o7777, mode, `${umask} ${path}`);
      await Deno.writeTextFile(`${program}/main.txt`, "changed");
      assert.equal((await run()).status, 0, umask);
      assert.equal(await Deno.readTextFile(`${program}/main.txt`), "one");
    });
  }
});

Deno.test("what was changed in the cache is not run but unpacked again", async () => {
  await inPlace(async (place) => {
    const { directories } = await writeProgram(`${place}/program`);
    const [engine, program] = directories.map((name) => `${place}/.cache/murmur/${name}`);
    const env = { HOME: place };
    await start([`${place}/program`], env);
    const elsewhere = `${place}/elsewhere`;
    const changes: Record<string, () => void> = {
      "the same size, written to": () => Deno.writeTextFileSync(`${engine}/engine`, PROGRAM.replace("arg:", "bad:")),
      "longer": () => Deno.writeTextFileSync(`${engine}/engine`, "#!/bin/sh\necho bad:longer\n"),
      "gone": () => Deno.removeSync(`${program}/main.txt`),
      "other rights": () => Deno.chmodSync(`${engine}/engine`, 0o755),
      "a link": () => {
        Deno.renameSync(`${program}/main.txt`, elsewhere);
        Deno.symlinkSync(elsewhere, `${program}/main.txt`);
      },
      "the directory a link": () => {
        Deno.renameSync(engine!, `${place}/moved`);
        Deno.symlinkSync(`${place}/moved`, engine!);
      },
      "the directory a file": () => {
        Deno.removeSync(program!, { recursive: true });
        Deno.writeTextFileSync(program!, "");
      },
      "the directory open to others": () => Deno.chmodSync(engine!, 0o750),
    };
    for (const [what, change] of Object.entries(changes)) {
      change();
      const { status, args, stdout, stderr } = await start([`${place}/program`, "x"], env);
      assert.equal(status, 0, `${what}: ${stderr}`);
      assert.ok(!stdout.includes("bad:"), what);
      assert.equal(args.at(-1), "x", what);
      assert.equal(Deno.readTextFileSync(`${program}/main.txt`), "one", what);
      assert.ok(Deno.lstatSync(engine!).isDirectory && Deno.lstatSync(program!).isDirectory, what);
      assert.deepEqual(names(`${place}/.cache/murmur`), [...directories].sort(), what);
      await Deno.remove(`${place}/moved`, { recursive: true }).catch(() => {});
      await Deno.remove(elsewhere).catch(() => {});
    }
  });
});

Deno.test("a directory that another could have made or can change is refused", async () => {
  await inPlace(async (place) => {
    await writeProgram(`${place}/program`);
    const run = (env: Record<string, string>) => start([`${place}/program`], env);
    const cache = `${place}/cache`;

    await Deno.mkdir(`${place}/target`, { mode: 0o700 });
    await Deno.symlink(`${place}/target`, cache);
    refusal(await run({ MURMUR_CACHE_DIR: cache }), "E-IO-003", /is not a directory/);
    assert.deepEqual(names(`${place}/target`), []);
    await Deno.remove(cache);

    await Deno.writeTextFile(cache, "");
    refusal(await run({ MURMUR_CACHE_DIR: cache }), "E-IO-003", /is not a directory/);
    await Deno.remove(cache);

    await Deno.mkdir(cache);
    for (const mode of [0o770, 0o707, 0o777, 0o1777]) {
      await Deno.chmod(cache, mode);
      refusal(
        await run({ MURMUR_CACHE_DIR: cache }),
        "E-IO-003",
        /can be written by others: what lies in it is not run/,
      );
      assert.deepEqual(names(cache), []);
    }
    // Readable is not writable: it is closed and used.
    await Deno.chmod(cache, 0o755);
    assert.equal((await run({ MURMUR_CACHE_DIR: cache })).status, 0);
    assert.equal(Deno.statSync(cache).mode! & 0o7777, 0o700);

    // Above it: open to a group only when that is the user's own.
    await Deno.mkdir(`${place}/shared/inner`, { recursive: true });
    await Deno.chmod(`${place}/shared`, 0o775);
    const [uid, gid] = [Deno.uid()!, Deno.gid()!];
    const shared = await run({ XDG_CACHE_HOME: `${place}/shared/inner` });
    if (uid === gid) assert.equal(shared.status, 0);
    else refusal(shared, "E-IO-003", /shared can be written by others/);
    if (ROOT) {
      const as = (group: number) => ["/usr/bin/setpriv", `--reuid=1234`, `--regid=${group}`, "--clear-groups"];
      for (const [group, status] of [[1234, 0], [100, 1]] as const) {
        const home = await Deno.makeTempDir();
        try {
          await Deno.chown(home, 1234, group);
          await Deno.chmod(home, 0o775);
          await Deno.chmod(place, 0o755);
          const ran = await start([...as(group), `${place}/program`], { HOME: home });
          assert.equal(ran.status, status, ran.stderr);
          if (status === 1) assert.deepEqual(names(`${home}/.cache/murmur`), []);
        } finally {
          await Deno.remove(home, { recursive: true });
        }
      }
    }

    // Above it: open to everybody only with the sticky bit.
    await Deno.mkdir(`${place}/open/inner`, { recursive: true });
    await Deno.chmod(`${place}/open`, 0o777);
    refusal(await run({ XDG_CACHE_HOME: `${place}/open/inner` }), "E-IO-003", /open can be written by others/);
    await Deno.chmod(`${place}/open`, 0o1777);
    assert.equal((await run({ XDG_CACHE_HOME: `${place}/open/inner` })).status, 0);
    assert.ok(names(`${place}/open/inner`).includes("murmur"));
  });
});

Deno.test({
  name: "a directory of another user's, and one below another user's, is refused",
  ignore: !ROOT,
  fn: () =>
    inPlace(async (place) => {
      await writeProgram(`${place}/program`);
      await Deno.mkdir(`${place}/theirs/ours`, { recursive: true, mode: 0o700 });
      await Deno.chown(`${place}/theirs`, 65_534, 65_534);
      const run = (env: Record<string, string>) => start([`${place}/program`], env);
      refusal(await run({ MURMUR_CACHE_DIR: `${place}/theirs` }), "E-IO-003", /belongs to another user: what lies/);
      refusal(await run({ MURMUR_CACHE_DIR: `${place}/theirs/ours` }), "E-IO-003", /theirs belongs to another user/);
      assert.deepEqual(names(`${place}/theirs/ours`), []);
    }),
});

Deno.test({
  name: "another user who keeps putting something else in the cache's place has nothing of his run",
  ignore: !ROOT,
  fn: () =>
    inPlace(async (place) => {
      const { directories } = await writeProgram(`${place}/program`);
      await Deno.chmod(place, 0o755);
      // Where everybody may make entries, as in /tmp. What is his looks as what was unpacked does.
      const open = `${place}/open`;
      await Deno.mkdir(open);
      await Deno.chmod(open, 0o1777);
      const his = `${place}/his`;
      await Deno.mkdir(`${his}/${directories[0]}`, { recursive: true });
      await Deno.mkdir(`${his}/${directories[1]}`);
      await Deno.writeTextFile(`${his}/${directories[0]}/engine`, PROGRAM.replace("arg:", "bad:"));
      await new Deno.Command("chmod", { args: ["-R", "700", his] }).output();
      await new Deno.Command("chown", { args: ["-R", "1234:1234", his] }).output();
      const script = `cd "$1" || exit 1
while :; do
  ln -s "$2" murmur; rm -f murmur
  cp -a "$2" murmur; rm -rf murmur
  mkdir murmur; rmdir murmur
done`;
      const attacker = new Deno.Command("setpriv", {
        args: ["--reuid=1234", "--regid=1234", "--clear-groups", "sh", "-c", script, "sh", open, his],
        stdout: "null",
        stderr: "null",
      }).spawn();
      let refused = 0;
      try {
        for (let round = 0; round < 60; round++) {
          const { status, stdout, stderr } = await start([`${place}/program`], { XDG_CACHE_HOME: open });
          assert.ok(!stdout.includes("bad:"), stdout);
          if (status === 0) await Deno.remove(`${open}/murmur`, { recursive: true });
          else {
            assert.match(stderr, /^error\[E-IO-00[23]\]: /);
            refused++;
          }
        }
      } finally {
        attacker.kill("SIGKILL");
        await attacker.status;
      }
      assert.ok(refused > 0, "he was never in time");
    }),
});

Deno.test({
  name: "root with the home of another user, as sudo leaves it, keeps out of it",
  ignore: !ROOT || !MOUNTS,
  fn: () =>
    inPlace(async (place) => {
      const { directories } = await writeProgram(`${place}/program`);
      await Deno.chmod(place, 0o755);
      await Deno.mkdir(`${place}/home/.cache/murmur/${directories[0]}`, { recursive: true });
      await Deno.writeTextFile(`${place}/home/.cache/murmur/${directories[0]}/engine`, "#!/bin/sh\necho bad\n");
      await new Deno.Command("chown", { args: ["-R", "65534:65534", `${place}/home`] }).output();
      // Outside a namespace: in one, the other user would have no name.
      const script = 'mount -t tmpfs none /var/cache && exec "$@"';
      const { args, status, stderr } = await start(
        ["unshare", "-m", "sh", "-c", script, "sh", `${place}/program`],
        { HOME: `${place}/home`, PATH: "/usr/bin:/bin" },
      );
      assert.equal(status, 0, stderr);
      assert.match(args.at(-1)!, /^\/var\/cache\/murmur\/program-/);
    }),
});

Deno.test("without a place to unpack into the reason is told, with what to set", async () => {
  await inPlace(async (place) => {
    await writeProgram(`${place}/program`);
    const run = (env: Record<string, string>) => start([`${place}/program`, "--version"], env);
    if (!ROOT) {
      refusal(await run({}), "E-IO-001", /HOME is not set/);
      refusal(await run({ HOME: "relative" }), "E-IO-003", /HOME is 'relative'/);
      await Deno.mkdir(`${place}/closed`, { mode: 0o500 });
      refusal(await run({ HOME: `${place}/closed` }), "E-IO-002", /closed\/\.cache\/murmur cannot be made/);
    }
    refusal(await run({ MURMUR_CACHE_DIR: "relative" }), "E-IO-003", /no absolute path/);
    refusal(await run({ MURMUR_CACHE_DIR: "/proc/nothing" }), "E-IO-003", /MURMUR_CACHE_DIR/);
    refusal(await run({ MURMUR_CACHE_DIR: `/${"x".repeat(5000)}` }), "E-IO-003", /too long/);
    // A relative one is ignored, as its specification says.
    assert.equal((await run({ HOME: place, XDG_CACHE_HOME: "relative" })).status, 0);
    assert.ok(names(place).includes(".cache"));
  });
});

Deno.test("a cache that was filled serves though it can no longer be written", { ignore: ROOT }, async () => {
  await inPlace(async (place) => {
    await writeProgram(`${place}/program`);
    const env = { MURMUR_CACHE_DIR: `${place}/cache` };
    assert.equal((await start([`${place}/program`], env)).status, 0);
    await Deno.chmod(`${place}/cache`, 0o500);
    assert.equal((await start([`${place}/program`], env)).status, 0);
  });
});

Deno.test("a file that is cut or changed runs nothing and leaves nothing", async () => {
  for (const kind of ["plain", "best"] as const) {
    await inPlace(async (place) => {
      const launcher = (await launchers())[kind];
      const { bytes } = await writeProgram(`${place}/program`, { launcher });
      const env = { HOME: place };
      const cut = async (length: number) => {
        await Deno.writeFile(`${place}/cut`, bytes.subarray(0, length), { mode: 0o755 });
        await Deno.chmod(`${place}/cut`, 0o755);
        return await start([`${place}/cut`], env);
      };
      const appended = bytes.length - launcher.bytes.length;
      for (let tenth = 0; tenth < 10; tenth++) {
        refusal(await cut(launcher.bytes.length + Math.floor(appended * tenth / 10)), "E-IO-003", /not whole/);
      }
      refusal(await cut(bytes.length - 1), "E-IO-003", /not whole/);
      // One byte anywhere in what is appended.
      for (let sample = 0; sample < 24; sample++) {
        const at = launcher.bytes.length + Math.floor(appended * (sample + 0.5) / 24);
        const changed = bytes.slice();
        changed[at]! ^= 0x10;
        await Deno.writeFile(`${place}/changed`, changed, { mode: 0o755 });
        await Deno.chmod(`${place}/changed`, 0o755);
        refusal(await start([`${place}/changed`], env), "E-IO-003", /damaged|not whole/);
        // The first part may be whole.
        const left = await Array.fromAsync(Deno.readDir(`${place}/.cache/murmur`)).catch(() => []);
        assert.deepEqual(left.filter(({ name }) => /^(\.unpacking|program)/.test(name)), []);
      }
    });
  }
});

Deno.test("a file that may be executed and not be read says so", async () => {
  await inPlace(async (place) => {
    await writeProgram(`${place}/program`);
    await Deno.chmod(place, 0o755);
    await Deno.chmod(`${place}/program`, 0o111);
    const other = ROOT ? ["/usr/bin/setpriv", "--reuid=1234", "--regid=1234", "--clear-groups"] : [];
    const ran = await start([...other, `${place}/program`], { HOME: place });
    refusal(ran, "E-IO-003", /cannot read its own file[\s\S]*make it readable/);
  });
});

Deno.test("without open streams it unpacks and starts, and nothing is written where they would be", async () => {
  for (const closed of ["<&-", "2>&-", "<&- 2>&-", "<&- >&- 2>&-"]) {
    await inPlace(async (place) => {
      const { directories } = await writeProgram(`${place}/program`);
      const script = `exec "$1" ${closed}`;
      const { status } = await start(["/bin/sh", "-c", script, "sh", `${place}/program`], { HOME: place });
      // Whoever closes its output has the program itself fail.
      if (!closed.includes(" >&-")) assert.equal(status, 0, closed);
      const unpacked = `${place}/.cache/murmur`;
      assert.equal(await Deno.readTextFile(`${unpacked}/${directories[0]}/engine`), PROGRAM, closed);
      assert.equal(await Deno.readTextFile(`${unpacked}/${directories[1]}/main.txt`), "one", closed);
    });
  }
});

Deno.test("a list of contents that reaches outside the cache is refused", async () => {
  const { plain } = await launchers();
  for (const path of ["../escape", "/etc/escape", "a/../../escape", "a//b", "./a", "a/.", ""]) {
    await inPlace(async (place) => {
      const part = await storedPart({ name: "engine", files: [file(path, text(PROGRAM), true)] }, false);
      const pieces = await portableFile(plain.bytes, [part], { part, path: "x" }, ["x"]);
      await Deno.writeFile(`${place}/program`, new Uint8Array(await new Blob([...pieces]).arrayBuffer()));
      await Deno.chmod(`${place}/program`, 0o755);
      refusal(await start([`${place}/program`], { HOME: place }), "E-IO-003", /damaged/);
      assert.deepEqual(names(place).filter((name) => name.includes("escape")), []);
    });
  }
});

Deno.test("twenty first starts at once all run, and one unpacks", async () => {
  await inPlace(async (place) => {
    const { directories } = await writeProgram(`${place}/program`, { padding: 8_000_000 });
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, index) => start([`${place}/program`, `${index}`], { HOME: place })),
    );
    for (const [index, { status, args, stderr }] of all.entries()) {
      assert.equal(status, 0, stderr);
      assert.equal(args.at(-1), `${index}`);
    }
    assert.deepEqual(names(`${place}/.cache/murmur`), [...directories].sort());
  });
});

Deno.test("a start that is killed while it unpacks costs the next one nothing", async () => {
  await inPlace(async (place) => {
    const { directories } = await writeProgram(`${place}/program`, { padding: 24_000_000 });
    const cache = `${place}/.cache/murmur`;
    let caught = 0;
    for (let round = 0; round < 20 && caught < 3; round++) {
      await Deno.remove(`${place}/.cache`, { recursive: true }).catch(() => {});
      const child = new Deno.Command(`${place}/program`, { clearEnv: true, env: { HOME: place }, stdout: "null" })
        .spawn();
      const seen = () => {
        try {
          return names(cache).some((name) => name.startsWith(".unpacking"));
        } catch {
          return false;
        }
      };
      const until = performance.now() + 5_000;
      while (!seen() && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 1));
      await new Promise((resolve) => setTimeout(resolve, round * 5));
      child.kill("SIGKILL");
      await child.status;
      if (seen()) caught++;
      const { status, stderr } = await start([`${place}/program`], { HOME: place });
      assert.equal(status, 0, stderr);
      assert.deepEqual(names(cache), [...directories].sort());
    }
    assert.ok(caught > 0, "none was killed in time");
  });
});

Deno.test("two versions stand side by side and share what is the same", async () => {
  await inPlace(async (place) => {
    const one = await writeProgram(`${place}/one`, { label: "one" });
    const two = await writeProgram(`${place}/two`, { label: "two" });
    const env = { HOME: place };
    const [first, second] = [await start([`${place}/one`], env), await start([`${place}/two`], env)];
    assert.equal(one.directories[0], two.directories[0]);
    assert.notEqual(one.directories[1], two.directories[1]);
    assert.equal(await Deno.readTextFile(first.args[1]!), "one");
    assert.equal(await Deno.readTextFile(second.args[1]!), "two");
    assert.equal((await start([`${place}/one`], env)).args[1], first.args[1]);
  });
});

async function among(mounts: readonly OwnMount[], command: readonly string[], env: Readonly<Record<string, string>>) {
  return await start(withOwnMounts(mounts, command), { PATH: "/usr/bin:/bin", ...env });
}

Deno.test({
  name: "a full disk leaves nothing half unpacked and says how much room is needed",
  ignore: !MOUNTS,
  fn: () =>
    inPlace(async (place) => {
      await writeProgram(`${place}/program`);
      await Deno.mkdir(`${place}/disk`);
      await Deno.mkdir(`${place}/kept`);
      const ran = await among([{ at: `${place}/disk`, kilobytes: 1024, keep: `${place}/kept` }], [`${place}/program`], {
        MURMUR_CACHE_DIR: `${place}/disk/murmur`,
      });
      refusal(ran, "E-IO-003", /the disk is full \(4 MB are needed\)/);
      const left = names(`${place}/kept/murmur`).filter((name) => !name.startsWith("engine"));
      assert.deepEqual(left, []);
    }),
});

Deno.test({
  name: "without /proc, and on a disk that executes nothing, it says so",
  ignore: !MOUNTS,
  fn: () =>
    inPlace(async (place) => {
      await writeProgram(`${place}/program`);
      refusal(
        await among([{ at: "/proc", kilobytes: 4 }], [`${place}/program`], { HOME: place }),
        "E-IO-003",
        /\/proc is not mounted/,
      );
      await Deno.mkdir(`${place}/disk`);
      const script = 'mount -t tmpfs -o noexec none "$1" && exec "$2"';
      const command = ["unshare", "-r", "-m", "sh", "-c", script, "sh", `${place}/disk`, `${place}/program`];
      refusal(
        await start(command, { MURMUR_CACHE_DIR: `${place}/disk/murmur`, PATH: "/usr/bin:/bin" }),
        "E-IO-002",
        /may not be executed[\s\S]*noexec/,
      );
    }),
});

Deno.test("whoever waits at a terminal for more than a second is told why, nobody else", async () => {
  await inPlace(async (place) => {
    await writeProgram(`${place}/program`);
    const cache = `${place}/.cache/murmur`;
    await Deno.mkdir(cache, { recursive: true, mode: 0o700 });
    for (const terminal of [true, false]) {
      using lock = await Deno.open(`${cache}/.lock-program`, { create: true, write: true });
      await lock.lock(true);
      const command = terminal ? ["/usr/bin/script", "-qec", "../program", "/dev/null"] : [`${place}/program`];
      await Deno.mkdir(`${place}/cwd`, { recursive: true });
      const running = start(command, { HOME: place, SHELL: "/bin/sh", PATH: "/usr/bin:/bin" }, `${place}/cwd`);
      await new Promise((resolve) => setTimeout(resolve, 1_300));
      lock.unlockSync();
      const { status, stdout, stderr } = await running;
      assert.equal(status, 0, stderr);
      assert.equal(/unpacking into .*\/\.cache\/murmur, once …/.test(stdout + stderr), terminal);
      for (const name of names(cache)) await Deno.remove(`${cache}/${name}`, { recursive: true });
    }
  });
});
