import assert from "node:assert/strict";
import { newId } from "../../base/ids.ts";
import { VERSION } from "../../base/version.ts";
import { binaryName, buildBinaries } from "../../scripts/build_binaries.ts";
import { hostTarget } from "../../scripts/build_target.ts";
import { compileProgram } from "../../scripts/compile_form.ts";
import { PROGRAMS } from "../../scripts/program_files.ts";
import { makeRelease, makeReleaseKey, readReleaseKey } from "../../scripts/release.ts";
import { RoostDaemon, RoostHome } from "../../roost/testing/daemon.ts";
import { FreshUser, succeeded } from "../support/fresh_user.ts";
import { served } from "../support/served_directory.ts";

const ROOT = decodeURIComponent(new URL("../..", import.meta.url).pathname).replace(/\/$/, "");
/** The manifest of a capsule whose model is a script. */
function scripted(
  name: string,
  { artifacts = "", more, turns }: { readonly artifacts?: string; readonly more: string; readonly turns: string },
): string {
  return `name: ${name}
version: "0.1.0"
artifacts:
  - { name: murmur-driver-scripted, version: "0.1.0", runtime: driver, gateway: { endpoint: "http://127.0.0.1:1", keyless: true } }
${artifacts}
${more}
inference:
  model: scripted
  driver:
    artifact: murmur-driver-scripted
    config:
      turns:${turns}
`;
}

/** Builds every program in a copy of this checkout; answers where they lie. */
async function buildElsewhere(place: string): Promise<string> {
  const copy = `${place}/checkout`;
  await Deno.mkdir(`${copy}/dist`, { recursive: true });
  // Components and their translations have tests of their own; they are taken over.
  const kept = ["components", "translated"].map((name) => `dist/${name}`);
  const entries = [...Deno.readDirSync(ROOT)].map(({ name }) => name).filter((name) =>
    !["dist", ".git"].includes(name)
  );
  for (const name of [...entries, ...kept]) {
    const { success } = await new Deno.Command("cp", { args: ["-a", `${ROOT}/${name}`, `${copy}/${name}`] }).output();
    assert.ok(success, name);
  }
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["task", "--quiet", "build", "--form", "portable", "--output", `${place}/built`],
    cwd: copy,
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  return `${place}/built`;
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** A capsule that serves at its door until it is disposed of, in a project of its name with the work folder `work`. */
async function serving(
  user: FreshUser,
  name: string,
  manifest: Parameters<typeof scripted>[1],
): Promise<AsyncDisposable & { readonly id: string; readonly peer: string }> {
  const cwd = await user.folder(name, { "murmur.yaml": scripted(name, manifest), "work/.keep": "" });
  succeeded(await user.mur(["install"], { cwd }));
  const child = user.command([`${user.bin}/mur`, "run", "--workdir", `${cwd}/work`, "--json"], { cwd }).spawn();
  const told = new Response(child.stderr).text();
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("\n")) {
    const { value, done } = await lines.read();
    if (done) assert.fail(`${name} ended before it served: ${await told}`);
    text += value;
  }
  const { session_id, url } = JSON.parse(text.slice(0, text.indexOf("\n"))) as { session_id: string; url: string };
  return {
    id: session_id,
    peer: url,
    async [Symbol.asyncDispose]() {
      try {
        child.kill("SIGTERM");
      } catch {
        // It has ended.
      }
      await lines.cancel();
      await Promise.all([child.status, told]);
    },
  };
}

/** The delegated children that run now: where their program lies and which file they were started from. */
function* delegatedChildren(): Generator<[pid: string, program: string]> {
  for (const { name } of Deno.readDirSync("/proc")) {
    try {
      const read = (file: string) => Deno.readTextFileSync(`/proc/${name}/${file}`).split("\0");
      if (!/^\d+$/.test(name) || !read("cmdline").includes("--spawn-grant-stdin")) continue;
      const variables = read("environ");
      const value = (variable: string) => variables.find((each) => each.startsWith(`${variable}=`))?.split("=")[1];
      const cache = Deno.readLinkSync(`/proc/${name}/exe`).match(/^(.*)\/deno-[0-9a-f]{32}\/deno$/)?.[1];
      // Before the launcher has handed over it is not to be told.
      if (cache !== undefined) yield [name, `${cache} ${value("MURMUR_MUR_BINARY")}`];
    } catch {
      // It has ended.
    }
  }
}

Deno.test("from a release to the demo, for a fresh user with nothing else on the PATH", async (t) => {
  const release = await Deno.makeTempDir({ prefix: "release " });
  await using user = await FreshUser.make();
  let again: Promise<string> | null = null;
  try {
    await Deno.chmod(release, 0o755);
    const output = `${release}/v`;
    const lines: string[] = [];
    await makeRelease(
      { form: "auto", targets: [hostTarget()], output },
      await readReleaseKey(await makeReleaseKey()),
      (line) => lines.push(line),
    );
    console.log(lines.join("\n"));

    await t.step("each download has at most 60 MB", async () => {
      for await (const { name } of Deno.readDir(output)) {
        const { size } = await Deno.stat(`${output}/${name}`);
        assert.ok(size <= 60e6, `${name}: ${size}`);
      }
    });

    // Meanwhile, in a place and a process of its own.
    again = buildElsewhere(`${release}/other place`);
    again.catch(() => {});

    await t.step("it installs over HTTP, piped into sh", async () => {
      await served(output, async (url) => {
        const script = `curl -fsSL ${url}/install.sh | sh`;
        const ran = await user.run(["sh", "-c", script], {
          env: { MURMUR_INSTALL_FROM: url, MUR_INSTALL_DIR: user.bin },
          path: `${user.bin}:/usr/bin:/bin`,
        });
        assert.match(succeeded(ran), /installed .*\/mur \(/);
        assert.equal(ran.stderr, "");
      });
      assert.equal(succeeded(await user.mur(["--version"])), `mur ${VERSION}\n`);
      assert.equal(succeeded(await user.run([`${user.bin}/mur-roost`, "--version"])), `mur-roost ${VERSION}\n`);
      for (const page of ["mur.1", "mur-roost.1"]) {
        const path = `${user.home}/.local/share/man/man1/${page}`;
        const { success, stdout } = await new Deno.Command("mandoc", { args: ["-T", "lint", "-W", "error", path] })
          .output();
        assert.ok(success, new TextDecoder().decode(stdout));
      }
    });

    await t.step("the demo runs without network, from what the program carries", async () => {
      const example = `${ROOT}/examples/repo-report`;
      const project = await user.folder("project", {
        "murmur.yaml": await Deno.readTextFile(`${example}/murmur.yaml`),
        "prompt.md": await Deno.readTextFile(`${example}/prompt.md`),
      });
      const looked = await user.folder("looked", { "a.ts": "", "b.ts": "", "readme.md": "# Title\n" });
      const options = { cwd: project, network: false };
      const installed = succeeded(await user.mur(["install"], options));
      assert.match(installed, /Installed murmur-driver-scripted@0\.1\.0 from this mur/);
      assert.match(installed, /Installed murmur-tool-editor@0\.1\.0 from this mur/);
      // Nothing was translated: the translations were carried.
      const compiled = [...Deno.readDirSync(`${user.home}/.murmur/compiled`)].map(({ name }) => name);
      assert.deepEqual(compiled.filter((name) => name.includes("jco")), []);
      const ran = succeeded(
        await user.mur(
          ["run", "--workdir", looked, "--task", "Examine this directory and write out/report.md."],
          options,
        ),
      );
      assert.match(ran, /^status: +ok$/m);
      assert.match(await Deno.readTextFile(`${looked}/out/report.md`), /ts/);
      assert.match(succeeded(await user.mur(["trace", "show", "--workdir", looked], options)), /ok/);
      assert.deepEqual(
        [...Deno.readDirSync(`${user.home}/.murmur/compiled`)].filter(({ name }) => name.includes("jco")),
        [],
      );
    });

    await t.step("a tool in TypeScript builds with an empty PATH, amid hostile configuration, and runs", async () => {
      const hostile = {
        "deno.json": "{ broken",
        "deno.lock": "{ broken",
        "package.json": "{ broken",
        ".npmrc": "registry=http://127.0.0.1:1/\nbroken=[",
        "tsconfig.json": "{ broken",
        "node_modules/typescript/index.js": "throw new Error('not this one')",
        "node_modules/esbuild/index.js": "throw new Error('not this one')",
      };
      const folder = await user.folder("tools", hostile);
      await user.folder(".", {
        ".npmrc": hostile[".npmrc"],
        ".env": "DENO_V8_FLAGS=--no-such-flag\nPATH=/\nHOME=/nonexistent\n",
        "deno.json": "{ broken",
        "package.json": '{ "type": "commonjs", "imports": { "#x": "./x.js" } }',
      });
      const options = {
        cwd: folder,
        network: false,
        path: "/nonexistent",
        env: {
          DENO_DIR: "/nonexistent",
          DENO_V8_FLAGS: "--no-such-flag",
          DENO_CERT: "/nonexistent",
          NODE_OPTIONS: "--require /nonexistent",
          NPM_CONFIG_REGISTRY: "http://127.0.0.1:1",
          OTEL_DENO: "true",
          ESBUILD_BINARY_PATH: "/bin/false",
        },
      };
      assert.equal(succeeded(await user.mur(["--version"], options)), `mur ${VERSION}\n`);
      succeeded(await user.mur(["new", "tool", "my-tool"], options));
      assert.match(
        succeeded(await user.mur(["build", "my-tool"], options)),
        /Built artifact: my-tool\/my-tool-0\.1\.0\.mur\.zip/,
      );
      // The same bytes as a checkout makes.
      const made = await Deno.readFile(`${folder}/my-tool/my-tool-0.1.0.mur.zip`);
      const checkout = ["run", "-A", "--quiet", "--config", `${ROOT}/deno.json`, `${ROOT}/cli/main.ts`];
      const again = await new Deno.Command(Deno.execPath(), {
        args: [...checkout, "build", "my-tool", "-o", `${user.root}/again.mur.zip`],
        cwd: folder,
      }).output();
      assert.ok(again.success, new TextDecoder().decode(again.stderr));
      assert.deepEqual(await Deno.readFile(`${user.root}/again.mur.zip`), made);
      // Its component is translated by the program in a process of its own.
      assert.match(
        succeeded(await user.mur(["install", "-g", "my-tool/my-tool-0.1.0.mur.zip"], options)),
        /Installed my-tool/,
      );
      const compiled = [...Deno.readDirSync(`${user.home}/.murmur/compiled`)].map(({ name }) => name);
      assert.equal(compiled.filter((name) => name.includes("jco")).length, 1);
    });

    await t.step("its hidden modes hold nothing that whoever starts them could use", async () => {
      const empty = await user.folder("hidden");
      const hidden = (...modes: string[]) => user.mur(["--murmur-hidden-mode", ...modes], { cwd: empty });
      // Without a runtime on the other end of its pipe the host has nothing to do, and no permission to do it with.
      assert.equal((await hidden("component-host")).status, 0);
      assert.ok(succeeded(await hidden("translate-component")).length < 1_000, "no translation");
      for (const modes of [[], ["shell"], ["component-host", "more"], ["translate-component", "--version"]]) {
        const ran = await hidden(...modes);
        assert.equal(ran.status, 2, ran.stderr);
        assert.equal(ran.stdout, "");
      }
      // Not its first argument: an ordinary one. Nor do Deno's flags mean anything behind the program.
      assert.equal((await user.mur(["ps", "--murmur-hidden-mode", "component-host"])).status, 2);
      for (const flag of ["--allow-all", "--v8-flags=--help", "--inspect=127.0.0.1:0", "-A", "eval"]) {
        const ran = await user.mur([flag, "console.log(1)"]);
        assert.equal(ran.status, 2, ran.stderr);
        assert.equal(ran.stdout, "");
      }
      assert.deepEqual([...Deno.readDirSync(empty)], []);
    });

    await t.step("doctor finds the helper it carries", async () => {
      const { stdout } = await user.mur(["doctor"], { cwd: `${user.home}/project` });
      assert.match(stdout, /helper: +.*\.cache\/murmur\/mur-[0-9a-f]{32}\/mur-confine/);
    });

    await t.step("a session's agent may not change what the program runs from", async () => {
      const project = await user.folder("own", {
        "murmur.yaml": `name: own
version: "0.1.0"
artifacts:
  - { name: murmur-driver-scripted, version: "0.1.0", runtime: driver, gateway: { endpoint: "http://127.0.0.1:1", keyless: true } }
capabilities:
  shell: { allow: [sh] }
inference:
  model: scripted
  driver:
    artifact: murmur-driver-scripted
    config:
      turns:
        - tool_calls:
            - name: sh
              input: { command: "for f in .local/bin/mur .cache/murmur/*/*.js .cache/murmur/deno-*/deno; do echo x >> \\"$f\\" && echo changed; done; echo x > .cache/murmur/new && echo changed; true" }
        - text: "{{results.last.stdout}}"
`,
      });
      succeeded(await user.mur(["install"], { cwd: project }));
      const size = (await Deno.stat(`${user.bin}/mur`)).size;
      const { stdout, stderr } = await user.mur(
        ["run", "--workdir", user.home, "--task", "x", "--output", "text"],
        { cwd: project },
      );
      assert.ok(!stdout.includes("changed"), `${stdout}\n${stderr}`);
      assert.match(stderr + stdout, /Permission denied|Read-only|cannot create/i);
      assert.equal((await Deno.stat(`${user.bin}/mur`)).size, size);
      assert.equal(succeeded(await user.mur(["--version"])), `mur ${VERSION}\n`);
    });

    await t.step("mur-roost decides a delegation", async () => {
      await using home = new RoostHome(`${user.home}/roost`);
      await home.install("parent", "capabilities:\n  spawn: { allow: [local/child] }\n");
      await home.install("child");
      await home.install("stranger");
      await user.own(home.path);
      await using daemon = await RoostDaemon.start(["--spawn-allow", "local/parent"], {
        home: home.path,
        under: user.under(),
        program: [`${user.bin}/mur-roost`],
        env: { MURMUR_CACHE_DIR: `${user.home}/.cache/murmur` },
      });
      const parent = await daemon.root("parent");
      await daemon.delegate(parent.credential, "child");
      assert.equal((await daemon.spawn(parent.credential, "stranger")).status, 403);
      assert.equal((await daemon.register(newId("ses"), "child")).status, 403);
      assert.equal((await daemon.stop()).code, 0);
    });

    await t.step("one capsule hands work to two others, which start from the same file", async () => {
      const capsules = await user.folder("capsules");
      await new Deno.Command("cp", { args: ["-r", `${ROOT}/examples/orchestrator/.`, capsules] }).output();
      await user.own(capsules);
      for (const name of ["orchestrator", "surveyor", "reader", "publisher"]) {
        const source = name === "orchestrator" ? "." : name;
        succeeded(await user.mur(["build", source, "-o", `../${name}.mur.zip`], { cwd: capsules }));
        succeeded(await user.mur(["install", "-g", `${user.home}/${name}.mur.zip`]));
      }
      succeeded(await user.mur(["install", "-g", "murmur-driver-scripted@0.1.0"], { network: false }));
      // Not where a program that was told nothing would look, and under a name that is on no PATH.
      const moved = `${user.home}/caches`;
      await user.folder("caches");
      await Deno.rename(`${user.home}/.cache/murmur`, `${moved}/murmur`);
      const file = `${await user.folder("elsewhere")}/another name`;
      await Deno.rename(`${user.bin}/mur`, file);
      const env = { XDG_CACHE_HOME: moved };
      const seen = new Map<string, string>();
      try {
        await using daemon = await RoostDaemon.start(["--spawn-allow", "local/orchestrator", "--max-depth", "1"], {
          home: user.home,
          under: user.under(),
          program: [`${user.bin}/mur-roost`],
          env,
        });
        const work = await user.folder("work", { "README.md": "# Begins here\n", "other": "" });
        const running = user.run(
          [
            file,
            ...["run", "--capsule", "local/orchestrator", "--capsule-version", "0.1.0", "--workdir", work],
            ...["--task", "Look at this folder.", "--output", "text"],
          ],
          { path: user.commands, env: { ...env, MURMUR_ROOST_URL: daemon.url } },
        );
        let over = false;
        void running.finally(() => over = true);
        while (!over) {
          for (const [pid, program] of delegatedChildren()) seen.set(pid, program);
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        const said = succeeded(await running);
        assert.match(said, /There are 2 files\./);
        assert.match(said, /It begins:\n# Begins here/);
        assert.equal((await daemon.stop()).code, 0);
      } finally {
        await Deno.rename(file, `${user.bin}/mur`);
        const elsewhere = await Deno.stat(`${user.home}/.cache/murmur`).catch(() => null);
        assert.equal(elsewhere, null, "a child unpacked the program once more");
        await Deno.rename(`${moved}/murmur`, `${user.home}/.cache/murmur`);
      }
      // A child that is about to start another program is seen twice.
      assert.ok(seen.size >= 2, `${seen.size}`);
      for (const program of seen.values()) assert.equal(program, `${moved}/murmur ${file}`);
    });

    await t.step("a hook, a plan, exported files and a file for a peer, all in what the program carries", async () => {
      const offline = { network: false };
      const hooks = await user.folder("hooks");
      succeeded(await user.mur(["new", "hook", "gatekeeper"], { cwd: hooks, ...offline }));
      succeeded(await user.mur(["build", "gatekeeper"], { cwd: hooks, ...offline }));
      succeeded(await user.mur(["install", "-g", "gatekeeper/gatekeeper-0.1.0.mur.zip"], { cwd: hooks, ...offline }));
      const hooked = await user.folder("hooked", {
        "murmur.yaml": scripted("hooked", {
          artifacts: '  - { name: gatekeeper, version: "0.1.0", runtime: hook }',
          more: "capabilities: { shell: { allow: [sh] } }",
          turns: `
        - tool_calls: [{ name: sh, input: { command: "ls .git" } }]
        - text: "{{results.0}}"`,
        }),
      });
      assert.match(succeeded(await user.mur(["install"], { cwd: hooked, ...offline })), /gatekeeper/);
      const refused = succeeded(
        await user.mur(["run", "--task", "x", "--output", "text"], { cwd: hooked, ...offline }),
      );
      assert.match(refused, /must not touch \.git/);

      const planned = await user.folder("planned", {
        "murmur.yaml": await Deno.readTextFile(`${ROOT}/examples/plan/murmur.yaml`),
      });
      const pages = await user.folder("pages", { "a.md": "", "b.md": "" });
      succeeded(await user.mur(["install"], { cwd: planned, ...offline }));
      const plan = ["run", "--workdir", pages, "--task", "Count the pages.", "--output", "text"];
      // `cat` is a command of this capsule.
      await Deno.symlink("/bin/cat", `${user.commands}/cat`);
      assert.match(
        succeeded(await user.mur(plan, { cwd: planned, ...offline })),
        /There are 2\s+pages, and no licence\./,
      );

      const port = freePort();
      const serves = "lifecycle: { task_acceptance: queue, after_task: sleep, queue_depth: 4 }";
      await using fetcher = await serving(user, "fetcher", {
        more: `${serves}\ncapabilities: { peer_fetch: { allow: [localhost] }, shell: { allow: [cat] } }`,
        turns: `
        - tool_calls: [{ name: cat, input: { command: handle } }]
        - tool_calls: [{ name: fetch-peer-file, input: { peer: "localhost:${port}", handle: "{{results.0.stdout}}" } }]
        - text: "{{results.1}}"`,
      });
      await using sharer = await serving(user, "sharer", {
        more: `${serves}\nnetwork: { internal_port: ${port} }\ncapabilities: { network: { allow: [localhost] } }\n` +
          "exports: { files: { root: handoff, mode: read-only }, peer_files: { root: handoff, max_ttl: 5m } }",
        turns: `
        - tool_calls: [{ name: share-file, input: { path: report.md, peer: "${fetcher.peer}" } }]
        - text: "{{results.0.json.handle}}"`,
      });
      await user.folder("sharer/work/handoff", { "report.md": "what was found" });
      assert.match(succeeded(await user.mur(["files", sharer.id])), /^report\.md +14 /m);
      assert.equal(succeeded(await user.mur(["files", sharer.id, "report.md"])), "what was found");
      const handle = succeeded(await user.mur(["send", sharer.id, "share it"])).trim();
      assert.match(handle, /^mh1\./);
      await user.folder("fetcher/work", { handle });
      const fetched = succeeded(await user.mur(["send", fetcher.id, "fetch it"]));
      assert.match(fetched, /peer-in\/[0-9a-f]{16}-report\.md/);
      for (const { id } of [sharer, fetcher]) succeeded(await user.mur(["stop", id]));
    });

    await t.step(
      "from an empty directory, through a link, under another name, without a home, on a read-only disk",
      async () => {
        const empty = await user.folder("empty");
        assert.equal(succeeded(await user.mur(["ps"], { cwd: empty })), "no running capsules\n");
        assert.deepEqual([...Deno.readDirSync(empty)], []);
        const named = await user.folder("n\u00e4me d with space");
        await Deno.copyFile(`${user.bin}/mur`, `${named}/other % name`);
        await Deno.symlink(`${named}/other % name`, `${named}/link`);
        await user.own(named);
        for (const file of ["other % name", "link"]) {
          assert.equal(succeeded(await user.run([`${named}/${file}`, "ps"])), "no running capsules\n");
        }
        const homeless = await user.mur(["--version"], { env: { HOME: "" } });
        assert.equal(homeless.status, 1);
        assert.match(homeless.stderr, /^error\[E-IO-001\]: HOME is not set/);
        const readOnly = 'mount --make-rprivate / && mount -o remount,bind,ro / && exec "$@"';
        const { stdout, stderr } = await new Deno.Command("unshare", {
          args: [
            ...Deno.uid() === 0 ? ["-m"] : ["-rm"],
            ...["sh", "-c", readOnly, "sh", ...user.under(), `${user.bin}/mur`, "--version"],
          ],
          clearEnv: true,
          env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", HOME: user.home },
          stdin: "null",
        }).output();
        assert.equal(new TextDecoder().decode(stdout), `mur ${VERSION}\n`);
        assert.equal(new TextDecoder().decode(stderr), "");
      },
    );

    await t.step("twenty first starts at once", async () => {
      await Deno.remove(`${user.home}/.cache/murmur`, { recursive: true });
      const all = await Promise.all(Array.from({ length: 20 }, () => user.mur(["--version"])));
      for (const ran of all) {
        assert.equal(succeeded(ran), `mur ${VERSION}\n`);
        assert.equal(ran.stderr, "");
      }
      const made = [...Deno.readDirSync(`${user.home}/.cache/murmur`)].map(({ name }) =>
        name.replace(/-[0-9a-f]{32}$/, "")
      );
      assert.deepEqual(made.filter((name) => !name.startsWith(".lock-")).sort(), ["deno", "mur"]);
    });

    await t.step("uninstalling leaves the user's own files alone", async () => {
      const ran = await user.run(["sh", `${output}/install.sh`, "--uninstall"], {
        env: { MUR_INSTALL_DIR: user.bin },
        path: "/usr/bin:/bin",
      });
      succeeded(ran);
      assert.deepEqual([...Deno.readDirSync(user.bin)], []);
      await assert.rejects(Deno.stat(`${user.home}/.cache/murmur`), Deno.errors.NotFound);
      assert.ok((await Deno.stat(`${user.home}/.murmur`)).isDirectory);
    });

    await t.step("another build of the same state, in another place, is the same bytes", async () => {
      const there = await again;
      let here = output;
      if (!lines.every((line) => line.includes("portable form"))) {
        here = `${release}/here`;
        await buildBinaries({ form: "portable", targets: [hostTarget()], programs: PROGRAMS, output: here });
      }
      for (const { name } of PROGRAMS) {
        const file = binaryName(name, hostTarget());
        const [one, two] = [await Deno.readFile(`${here}/${file}`), await Deno.readFile(`${there}/${file}`)];
        assert.equal(one.length, two.length, name);
        assert.ok(one.every((byte, index) => byte === two[index]), `${name} differs`);
      }
    });
  } finally {
    await again?.catch(() => {});
    await Deno.remove(release, { recursive: true });
  }
});

Deno.test("the compile form takes in the whole program, as far as it can be made without its base", async () => {
  const place = await Deno.makeTempDir({ prefix: "compile " });
  try {
    const roost = PROGRAMS.find(({ name }) => name === "mur-roost")!;
    const program = await roost.prepare(`${place}/program`, {
      helper: null,
      native: { esbuild: "", componentizer: "" },
    });
    // Deno itself in place of the base: the file is made whole, its module graph resolved and its files taken in, but it
    // starts as Deno does. A base cannot be had where only a package registry is reached.
    const made = await new Deno.Command(Deno.execPath(), {
      args: [
        "eval",
        "--quiet",
        "--config",
        `${ROOT}/deno.json`,
        `
        import { compileProgram } from ${
          JSON.stringify(new URL("../../scripts/compile_form.ts", import.meta.url).href)
        };
        import { hostTarget } from ${JSON.stringify(new URL("../../scripts/build_target.ts", import.meta.url).href)};
        await compileProgram(${JSON.stringify(program)}, hostTarget(), ${JSON.stringify(`${place}/out`)});
      `,
      ],
      env: { DENORT_BIN: Deno.execPath() },
    }).output();
    assert.ok(made.success, new TextDecoder().decode(made.stderr));
    const text = new TextDecoder("latin1").decode(await Deno.readFile(`${place}/out`));
    for await (const { name } of Deno.readDir(program.folder)) {
      const content = new TextDecoder("latin1").decode(await Deno.readFile(`${program.folder}/${name}`));
      assert.ok(text.includes(content.slice(0, 2_000)), `${name} is not in it`);
    }
    await Deno.writeTextFile(`${program.folder}/${program.entry}`, 'import "./missing.js";');
    await assert.rejects(compileProgram(program, hostTarget(), `${place}/broken`), /missing\.js|denort|DENORT/);
  } finally {
    await Deno.remove(place, { recursive: true });
  }
});
