/**
 * Plans of real launches carried out by the real helper: what an allowed shell can and cannot do on each tier, the same
 * done without containment first wherever it is refused.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { ContainmentClass } from "../../artifact/manifest/capsule_manifest.ts";
import { parseCapsuleManifest } from "../../artifact/manifest/parse_capsule_manifest.ts";
import { type MurmurHome, murmurHomeAt } from "../../base/murmur_home.ts";
import { commandEnvironment } from "../../sandbox/command_environment.ts";
import { makeControlDirectory } from "../../sandbox/confine_control.ts";
import { checkoutHelper } from "../../sandbox/confine_helper.ts";
import { startConfinedCommand } from "../../sandbox/confined_command.ts";
import { findExecutable } from "../../sandbox/executable_path.ts";
import { type HostProbe, probeHost } from "../../sandbox/host_probe.ts";
import { CommandContainment } from "./command_containment.ts";
import { type ContainmentJudgement, judgeContainment } from "./containment_judgement.ts";
import { type SessionPaths, sessionPaths } from "./session_directories.ts";
import { trustedPaths } from "./trusted_paths.ts";

const HELPER = await checkoutHelper();
const PROBE = await probeHost(HELPER);
const SEARCH = "/usr/local/bin:/usr/bin:/bin";

/** A way in which commands are contained here. */
interface Layout {
  readonly tier: string;
  /** Floor and probe that lead to it. */
  readonly floor: ContainmentClass;
  readonly probe: HostProbe;
  /** As an older kernel's Landlock would have it; `null`: this one's. */
  readonly abi: number | null;
}

/** The three contained tiers as far as this host has them, those with Landlock also as older kernels have it. */
const LAYOUTS: readonly Layout[] = ([
  { tier: "sealed", floor: "sealed", probe: PROBE, there: PROBE.sealed === "ok" && PROBE.landlock },
  { tier: "full", floor: "advisory", probe: PROBE, there: PROBE.landlock },
  { tier: "seccomp", floor: "advisory", probe: { ...PROBE, landlock: false }, there: true },
] as const).filter(({ there }) => there && PROBE.network === "ok").flatMap(({ tier, floor, probe }): Layout[] =>
  [null, ...(tier === "seccomp" ? [] : [1, 2, 3])].map((abi) => ({ tier, floor, probe, abi }))
);

const labelOf = ({ tier, abi }: Layout) => abi === null ? tier : `${tier} with Landlock ABI ${abi}`;

interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly failure: string | null;
}

/** A session in a directory of its own, without a capsule that runs. */
class ContainedSession implements AsyncDisposable {
  private constructor(
    readonly root: string,
    readonly project: string,
    readonly home: MurmurHome,
    readonly paths: SessionPaths,
    readonly judgement: ContainmentJudgement,
    readonly containment: CommandContainment,
    readonly control: string,
    readonly path: string,
  ) {}

  static async start(options: {
    readonly floor: ContainmentClass;
    readonly probe: HostProbe;
    readonly abi?: number | null;
    readonly shell?: string;
    readonly more?: string;
    readonly parent?: string;
    readonly path?: string;
    readonly files?: Readonly<Record<string, string>>;
    readonly hostPaths?: (root: string) => readonly { readonly path: string; readonly access: "read" | "read-write" }[];
  }): Promise<ContainedSession> {
    const made = await Deno.makeTempDir(options.parent === undefined ? {} : { dir: options.parent });
    const root = await Deno.realPath(made);
    const project = `${root}/project`;
    const home = murmurHomeAt(`${root}/home`);
    for (const directory of [project, `${root}/home/.murmur`, `${root}/outside`]) {
      await Deno.mkdir(directory, { recursive: true });
    }
    await Deno.writeTextFile(home.config, "secret");
    await Deno.writeTextFile(`${root}/outside/file`, "outside");
    for (const [path, text] of Object.entries(options.files ?? {})) await Deno.writeTextFile(`${root}/${path}`, text);
    const { manifest } = parseCapsuleManifest(
      `name: a\nversion: "1"\ncapabilities: { shell: ${
        options.shell ?? "{ allow: [sh, cat, cp, ls, mv, chmod, touch, id, ln, mkdir] }"
      } ${options.more ?? ""} }\n`,
      `${project}/murmur.yaml`,
    );
    await Deno.writeTextFile(`${project}/murmur.yaml`, manifest.text);
    const id = `ses_${"0".repeat(31)}1`;
    const paths = sessionPaths(home, { id, workdirRoot: project, workdir: project });
    const judgement = await judgeContainment({
      manifest,
      floor: options.floor,
      host: { kind: "probed", probe: options.probe },
      home,
      path: options.path ?? SEARCH,
      workdir: project,
      workdirRoot: project,
      hostPathFile: home.config,
      hostPaths: (options.hostPaths?.(root) ?? []).map((each) => ({ ...each, written: each.path })),
      trusted: trustedPaths(manifest, {
        manifest: `${project}/murmur.yaml`,
        manifestDir: project,
        workspaceRoot: project,
        storeRoot: null,
        cwd: project,
        searched: [],
        components: [],
        murmurHome: home.root,
        program: [],
      }),
      hostReported: false,
      nativeTools: [],
    });
    assert.deepEqual(judgement.refusals.map(({ message }) => message), []);
    for (const directory of ["tmp", "home", "out"]) {
      await Deno.mkdir(`${paths.records}/${directory}`, { recursive: true });
    }
    await Deno.mkdir(paths.runtime, { recursive: true });
    await Deno.writeTextFile(`${paths.runtime}/task.md`, "the task");
    const containment = await CommandContainment.prepare({
      manifest,
      judgement,
      paths,
      path: options.path ?? SEARCH,
      landlockAbiAtMost: options.abi ?? null,
    });
    const control = `${root}/ctl`;
    makeControlDirectory(control);
    return new ContainedSession(root, project, home, paths, judgement, containment, control, options.path ?? SEARCH);
  }

  /** Runs a script of the allowed shell, contained. */
  sh(script: string): Promise<Outcome> {
    return this.run("sh", ["-c", script]);
  }

  /** Runs an allowed binary, contained. */
  run(name: string, args: readonly string[]): Promise<Outcome> {
    return this.start(this.containment.programOf(findExecutable(name, this.path)!), args, false);
  }

  /** Runs any program as the runtime would. */
  async start(program: string, args: readonly string[], native: boolean): Promise<Outcome> {
    const { plan } = this.containment;
    const command = startConfinedCommand({
      helper: HELPER,
      records: this.containment.records({ program, args, native }, null),
      env: commandEnvironment({
        host: new Map([["PATH", this.path]]),
        session: {},
        baselineEnv: [],
        stripEnv: [],
        home: plan.home,
        temporary: plan.temporary.variable,
        runtimeDir: plan.runtime,
      }),
      input: null,
      controlDirectory: this.control,
      keep: 1 << 20,
      spoolDir: null,
      connectMs: 10_000,
    });
    const end = await command.end;
    const out = end.stdout.text() + end.stderr.text();
    end.stdout.close();
    end.stderr.close();
    return {
      code: end.exitCode,
      out,
      failure: end.failure === null ? null : `${end.failure.stage}: ${end.failure.reason}`,
    };
  }

  /** Runs the same script without containment: an attack must work here, or its failure means nothing. */
  async bare(script: string): Promise<Outcome> {
    const { code, stdout, stderr } = await new Deno.Command("sh", { args: ["-c", script], cwd: this.project }).output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    return { code, out: text(stdout) + text(stderr), failure: null };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.containment.close();
    await Deno.remove(this.root, { recursive: true });
  }
}

const PARENTS = [undefined, "/var/tmp"] as const;

for (const layout of LAYOUTS) {
  const { tier, floor, probe, abi } = layout;
  for (const parent of PARENTS) {
    const place = `${labelOf(layout)}, ${parent === undefined ? "below /tmp" : "elsewhere"}`;

    Deno.test(`${place}: a command works where it was granted to`, async () => {
      await using session = await ContainedSession.start({
        floor,
        probe,
        abi,
        ...(parent === undefined ? {} : { parent }),
      });
      const { plan } = session.containment;
      assert.equal(plan.tier, tier);
      const run = await session.sh(
        'pwd; echo x > new && cat new; mkdir d && echo y > d/a && mv d/a moved && cat moved; echo h > "$HOME/h" && cat "$HOME/h";' +
          ' echo t > "$TMPDIR/t" && cat "$TMPDIR/t"; echo "$TMPDIR"; cat "$MURMUR_RUNTIME_DIR/task.md"; echo; echo n > /dev/null; ls murmur.yaml',
      );
      assert.equal(run.failure, null);
      assert.deepEqual(run.out.split("\n"), [
        session.project,
        "x",
        "y",
        "h",
        "t",
        plan.temporary.mapped ? "/tmp" : `${session.paths.records}/tmp`,
        "the task",
        "murmur.yaml",
        "",
      ]);
      assert.equal(await Deno.readTextFile(`${session.paths.records}/tmp/t`), "t\n");
      assert.equal(await Deno.readTextFile(`${session.paths.records}/home/h`), "h\n");
      const again = await session.sh("cat /tmp/t");
      assert.equal(again.out, plan.temporary.mapped ? "t\n" : again.out);
    });

    Deno.test(`${place}: nothing outside the grants is written, and nothing that was written runs`, async () => {
      await using session = await ContainedSession.start({
        floor,
        probe,
        abi,
        ...(parent === undefined ? {} : { parent }),
      });
      const { root, project, paths } = session;
      const loader = [...session.judgement.allow.execute].find((file) => /\/ld-[^/]+$/.test(file))!;
      const records = paths.records;
      const writes: readonly string[] = [
        `echo x > ${root}/outside/file`,
        `chmod 600 ${root}/outside/file`,
        `touch -d 2001-01-01 ${root}/outside/file`,
        `mv ${root}/outside/file ${root}/outside/moved`,
        `ln ${root}/outside/file ${root}/outside/linked`,
        `mkdir ${root}/outside/made`,
        `echo x > ${records}/out/made`,
        `echo x > ${paths.runtime}/task.md`,
        `echo x > ${session.home.config}`,
        `mkdir ${session.home.state}`,
      ];
      const runs: readonly string[] = [
        `cp /bin/cat ${project}/own && ${project}/own /dev/null`,
        `cp /bin/cat ${project}/own2 && ${loader} ${project}/own2 /dev/null`,
        `cp /bin/cat ${records}/tmp/own; cp /bin/cat /tmp/own; ${loader} /tmp/own /dev/null`,
        `cp /bin/cat ${records}/tmp/own; cp /bin/cat /tmp/own; ${loader} ${records}/tmp/own /dev/null`,
        `cp /bin/cat ${records}/home/own && ${loader} ${records}/home/own /dev/null`,
      ];
      const seen = async () => {
        const tree = await new Deno.Command("find", {
          args: [
            `${root}/outside`,
            session.home.root,
            "-not",
            "-path",
            `${records}/tmp*`,
            "-not",
            "-path",
            `${records}/home*`,
            "-printf",
            "%p %m %s %n %T@\n",
          ],
        }).output();
        return new TextDecoder().decode(tree.stdout).split("\n").sort().join("\n");
      };
      const restored = await seen();
      for (const attack of writes) {
        const before = await seen();
        const free = await session.bare(attack);
        assert.notEqual(await seen(), before, `without containment: ${attack}: ${free.out}`);
        const script =
          `rm -rf ${root}/outside/* ${records}/out/* ${session.home.state}; echo outside > ${root}/outside/file; ` +
          `printf secret > ${session.home.config}; printf 'the task' > ${paths.runtime}/task.md`;
        await session.bare(script);
      }
      assert.notEqual(restored, "");
      for (const attack of writes) {
        const before = await seen();
        const held = await session.sh(attack);
        assert.equal(held.failure, null, attack);
        assert.equal(await seen(), before, attack);
      }
      for (const attack of runs) {
        const free = await session.bare(attack);
        assert.equal(free.code, 0, `without containment: ${attack}: ${free.out}`);
        const held = await session.sh(attack);
        assert.equal(held.failure, null, attack);
        assert.notEqual(held.code, 0, `${attack}: ${held.out}`);
      }
    });

    Deno.test(`${place}: what the runtime writes down for a command does not run either`, async () => {
      await using session = await ContainedSession.start({
        floor,
        probe,
        abi,
        ...(parent === undefined ? {} : { parent }),
      });
      const { judgement, paths } = session;
      const loader = judgement.allow.execute.find((file) => /\/ld-[^/]+$/.test(file))!;
      for (const file of [`${paths.records}/out/result.txt`, `${paths.runtime}/task.md`]) {
        await Deno.copyFile("/bin/cat", file);
        await Deno.chmod(file, 0o755);
        for (const attack of [`${loader} ${file} /dev/null`, `${file} /dev/null`]) {
          assert.equal((await session.bare(attack)).code, 0);
          assert.notEqual((await session.sh(attack)).code, 0, attack);
        }
      }
    });

    Deno.test(`${place}: what a later launch trusts is not written, made, moved or redirected`, async () => {
      await using session = await ContainedSession.start({
        floor,
        probe,
        abi,
        ...(parent === undefined ? {} : { parent }),
        files: { "project/.env": "A=1\n" },
      });
      const { project } = session;
      const attacks = [
        "echo x > murmur.yaml",
        "mv murmur.yaml other",
        "echo x > n && mv n murmur.yaml",
        "rm -f murmur.yaml",
        "echo x > .env",
        "echo x > murmur.lock",
        "mkdir .murmur/artifacts",
        "mv .murmur m2",
        "ln -s /tmp roster.yaml",
        "chmod 777 .env",
        "ln murmur.yaml same && echo x > same",
      ];
      const before = await Deno.readTextFile(`${project}/murmur.yaml`);
      for (const attack of attacks) {
        const held = await session.sh(attack);
        assert.equal(held.failure, null, attack);
        assert.notEqual(held.code, 0, `${attack}: ${held.out}`);
      }
      assert.equal(await Deno.readTextFile(`${project}/murmur.yaml`), before);
      assert.equal(await Deno.readTextFile(`${project}/.env`), "A=1\n");
      assert.deepEqual([...Deno.readDirSync(project)].map(({ name }) => name).filter((name) => name !== "n").sort(), [
        ".env",
        ".murmur",
        "murmur.lock",
        "murmur.yaml",
        "roster.yaml",
      ]);
      session.containment.close();
      assert.deepEqual([...Deno.readDirSync(project)].map(({ name }) => name).filter((name) => name !== "n").sort(), [
        ".env",
        "murmur.yaml",
      ]);
    });
  }
}

for (const layout of LAYOUTS.filter(({ tier }) => tier !== "seccomp")) {
  const { tier, floor, probe, abi } = layout;
  const label = labelOf(layout);
  Deno.test(`${label}: what was not granted is not read, and is not there under a sealed root`, async () => {
    await using session = await ContainedSession.start({ floor, probe, abi });
    const { root } = session;
    for (const path of [session.home.config, `${root}/outside/file`, "/etc/shadow", "/proc/1/environ", "/etc/fstab"]) {
      const held = await session.run("cat", [path]);
      assert.notEqual(held.code, 0, path);
      assert.match(
        held.out,
        tier === "sealed" ? /No such file|Permission denied/ : /Permission denied|No such file/,
        path,
      );
    }
    const { out } = await session.sh("ls / /etc /home /root 2>&1; id -un; cat /etc/passwd");
    if (tier === "sealed") {
      const accounts = await session.sh("while read line; do echo $line; done < /etc/passwd");
      const uid = Deno.uid();
      assert.equal(
        accounts.out,
        uid === 0
          ? `root:x:0:${Deno.gid()}:root:${session.paths.records}/home:/bin/sh\n`
          : `root:x:0:0:root:/root:/bin/sh\ncapsule:x:${uid}:${Deno.gid()}:capsule:${session.paths.records}/home:/bin/sh\n`,
      );
      assert.match(out, new RegExp(`^${uid === 0 ? "root" : "capsule"}$`, "m"));
    }
  });

  Deno.test(`${label}: host paths are used as granted and run nothing`, async () => {
    await using session = await ContainedSession.start({
      floor,
      probe,
      abi,
      hostPaths: (root) =>
        [{ path: `${root}/outside`, access: "read" }, { path: `${root}/home/shared`, access: "read-write" }]
          .filter(({ path }) => {
            Deno.mkdirSync(path, { recursive: true });
            return true;
          }) as { path: string; access: "read" | "read-write" }[],
    });
    const { root } = session;
    const loader = session.judgement.allow.execute.find((file) => /\/ld-[^/]+$/.test(file))!;
    assert.equal((await session.run("cat", [`${root}/outside/file`])).out, "outside");
    assert.notEqual((await session.sh(`echo x > ${root}/outside/file`)).code, 0);
    assert.equal((await session.sh(`echo x > ${root}/home/shared/new`)).code, 0);
    assert.equal(await Deno.readTextFile(`${root}/home/shared/new`), "x\n");
    await Deno.copyFile("/bin/cat", `${root}/outside/cat`);
    for (const directory of ["outside", "home/shared"]) {
      if (directory !== "outside") await session.sh(`cp /bin/cat ${root}/${directory}/cat`);
      for (const attack of [`${root}/${directory}/cat`, `${loader} ${root}/${directory}/cat`]) {
        assert.equal((await session.bare(`${attack} /dev/null`)).code, 0);
        assert.notEqual((await session.sh(`${attack} /dev/null`)).code, 0, attack);
      }
    }
  });

  Deno.test(`${label}: a native tool runs, itself alone, and no shell command may run it`, async () => {
    await using session = await ContainedSession.start({ floor, probe, abi });
    const directory = `${session.paths.runtime}/tools/tool`;
    await Deno.mkdir(directory, { recursive: true });
    await Deno.copyFile("/bin/cat", `${directory}/tool`);
    await Deno.chmod(`${directory}/tool`, 0o755);
    const own = await session.start(`${directory}/tool`, [`${session.paths.runtime}/task.md`], true);
    assert.deepEqual([own.failure, own.out], [null, "the task"]);
    const loader = session.judgement.allow.execute.find((file) => /\/ld-[^/]+$/.test(file))!;
    for (const attack of [`${directory}/tool`, `${loader} ${directory}/tool`]) {
      assert.notEqual((await session.sh(`${attack} /dev/null`)).code, 0, attack);
    }
  });

  Deno.test(`${label}: a native tool that is a script finds its interpreter, wherever that lies but among what is written`, async () => {
    const places = await Promise.all(
      [undefined, "/var/tmp"].map(async (dir) => await Deno.realPath(await Deno.makeTempDir(dir ? { dir } : {}))),
    );
    try {
      for (const place of places) {
        await Deno.copyFile("/bin/sh", `${place}/real`);
        await Deno.symlink("real", `${place}/shell`);
      }
      await using session = await ContainedSession.start({
        floor,
        probe,
        abi,
        path: `${places[1]}:${SEARCH}`,
        files: { "project/kept": "kept" },
      });
      await Deno.copyFile("/bin/sh", `${session.project}/own`);
      const run = async (first: string) => {
        const directory = `${session.paths.runtime}/tools/tool`;
        await Deno.mkdir(directory, { recursive: true });
        const tool = `${directory}/${crypto.randomUUID()}`;
        await Deno.writeTextFile(tool, `#!${first}\nread line < kept; echo "$line" > kept2; echo ran\n`, {
          mode: 0o755,
        });
        await Deno.chmod(tool, 0o755);
        const { failure, out, code } = await session.start(tool, [], true);
        return `${failure ?? ""}${out}${code}`;
      };
      for (const first of [`${places[0]}/real`, `${places[1]}/real`, `${places[1]}/shell`, "/usr/bin/env shell"]) {
        assert.equal(await run(first), "ran\n0", first);
        assert.equal(await Deno.readTextFile(`${session.project}/kept2`), "kept\n");
      }
      assert.match(await run(`${session.project}/own`), /Permission denied|exec/);
    } finally {
      for (const place of places) await Deno.remove(place, { recursive: true });
    }
  });

  Deno.test(`${label}: names that are links run what they lead to, wherever they lie`, async () => {
    const made = await Deno.realPath(await Deno.makeTempDir());
    const elsewhere = await Deno.realPath(await Deno.makeTempDir({ dir: "/var/tmp" }));
    try {
      for (const directory of [`${made}/bin`, `${made}/programs`, `${elsewhere}/names`]) await Deno.mkdir(directory);
      await Deno.copyFile("/bin/cat", `${made}/programs/real`);
      await Deno.symlink("../programs/real", `${made}/bin/one`);
      await Deno.symlink(`${made}/programs/real`, `${elsewhere}/names/two`);
      await Deno.symlink(`${elsewhere}/names`, `${elsewhere}/alias`);
      await using session = await ContainedSession.start({
        floor,
        probe,
        abi,
        shell: "{ allow: [sh, one, two] }",
        path: `${made}/bin:${elsewhere}/alias:${SEARCH}`,
      });
      for (const name of ["one", "two"]) {
        const run = await session.run(name, ["murmur.yaml"]);
        assert.deepEqual([run.failure, run.code], [null, 0], `${name}: ${run.out}`);
        const through = await session.sh(`${name} murmur.yaml`);
        assert.equal(through.code, 0, `${name} through the shell: ${through.out}`);
      }
      assert.notEqual((await session.sh("cat murmur.yaml")).code, 0, "what is not allowed does not run");
    } finally {
      for (const path of [made, elsewhere]) await Deno.remove(path, { recursive: true });
    }
  });
}

Deno.test("workdir_exec lets written programs run in the three folders of a session, and nowhere else", async () => {
  await using session = await ContainedSession.start({
    floor: "advisory",
    probe: PROBE,
    more: ", filesystem: { workdir_exec: true }",
  });
  assert.equal(session.judgement.decision.achieved, "advisory");
  for (const directory of [".", "$HOME", "$TMPDIR"]) {
    const run = await session.sh(`cp /bin/cat "${directory}/own" && "${directory}/own" murmur.yaml`);
    assert.equal(run.code, 0, `${directory}: ${run.out}`);
  }
  await Deno.copyFile("/bin/cat", `${session.root}/outside/cat`);
  assert.notEqual((await session.sh(`${session.root}/outside/cat murmur.yaml`)).code, 0);
});

Deno.test("a cgroup that this host has holds the commands of a session", async () => {
  await using session = await ContainedSession.start({
    floor: "advisory",
    probe: PROBE,
    more: ", resources: { cgroup_pids_max: 12, cgroup_memory_bytes: 67108864 }",
  }).catch((error) => {
    // Feature needed: a writable cgroup. Without one the launch is refused, and says so.
    assert.match(String(error), /no cgroup scope could be created/);
    return { containment: null, [Symbol.asyncDispose]: () => Promise.resolve() };
  });
  if (session.containment === null) return;
  const contained = session as ContainedSession;
  const forks = await contained.sh(
    "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do (while :; do :; done) & done; echo done",
  );
  assert.equal(forks.failure, null);
  assert.ok(contained.containment.counters()!.tooManyProcesses > 0, forks.out);
});

/** Whether a program of the system is on this machine. */
const has = (name: string) => findExecutable(name, "/usr/bin:/bin") !== null;

for (const layout of LAYOUTS.filter(({ tier }) => tier !== "seccomp")) {
  const { floor, probe, abi } = layout;
  const label = labelOf(layout);
  Deno.test({
    name: `${label}: git, python and node do their work`,
    ignore: !has("git") && !has("python3") && !has("node"),
    async fn() {
      const directories = [...Deno.readDirSync("/usr/lib")].filter(({ name }) => /^python3/.test(name)).map((
        { name },
      ) => `/usr/lib/${name}`);
      const gitCore = ["/usr/lib/git-core", "/usr/libexec/git-core"].filter((path) => {
        try {
          return Deno.statSync(path).isDirectory;
        } catch {
          return false;
        }
      });
      const grant = (binary: string, paths: readonly string[]) =>
        paths.length === 0
          ? []
          : [`{ binary: ${binary}, dirs: [${paths.map((path) => `{ path: ${path}, list_dir: true }`).join(", ")}] }`];
      const grants = [...grant("python3", directories), ...grant("git", gitCore)];
      await using session = await ContainedSession.start({
        floor,
        probe,
        abi,
        shell: `{ allow: [sh, git, python3, node, cat], interpreter_runtime: [${grants.join(", ")}] }`,
        path: "/usr/bin:/bin",
      });
      if (has("git")) {
        const git = await session.sh(
          "git init -q --template= repo && cd repo && echo a > a && git add a && " +
            "git -c user.name=n -c user.email=e commit -qm one && git log --format=%s && git status --short",
        );
        assert.deepEqual([git.failure, git.code, git.out], [null, 0, "one\n"]);
      }
      if (has("python3")) {
        const python = await session.run("python3", [
          "-c",
          "import json, hashlib, tempfile; f = tempfile.NamedTemporaryFile('w'); print(json.dumps([1, hashlib.sha256(b'').hexdigest()[:4]]))",
        ]);
        assert.deepEqual([python.failure, python.code, python.out], [null, 0, '[1, "e3b0"]\n']);
      }
      if (has("node")) {
        const node = await session.run("node", ["-e", "require('fs').writeFileSync('n', '1'); console.log(1 + 1)"]);
        assert.deepEqual([node.failure, node.code, node.out], [null, 0, "2\n"]);
      }
    },
  });
}

Deno.test({
  name: "a compiler whose helpers are granted makes a program that runs with workdir_exec",
  ignore: !has("gcc"),
  async fn() {
    const ask = async (helper: string) => {
      const { stdout } = await new Deno.Command("gcc", { args: [`-print-prog-name=${helper}`] }).output();
      return new TextDecoder().decode(stdout).trim();
    };
    const lib = (await Deno.realPath(await ask("cc1"))).replace(/\/[^/]+$/, "");
    const dirs = [lib, "/usr/include", "/usr/lib"].map((path) => `{ path: ${path}, list_dir: true }`).join(", ");
    await using session = await ContainedSession.start({
      floor: "advisory",
      probe: PROBE,
      shell: `{ allow: [sh, gcc, as, ld], interpreter_runtime: [{ binary: gcc, dirs: [${dirs}] }] }`,
      more: ", filesystem: { workdir_exec: true }",
      path: "/usr/bin:/bin",
      files: { "project/a.c": '#include <stdio.h>\nint main(void) { puts("made here"); return 0; }\n' },
    });
    const run = await session.sh("gcc -o a a.c && ./a");
    assert.deepEqual([run.failure, run.out, run.code], [null, "made here\n", 0]);
  },
});
