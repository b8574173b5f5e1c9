import assert from "node:assert/strict";
import { newId } from "../../base/ids.ts";
import { VERSION } from "../../base/version.ts";
import { buildBinaries } from "../../scripts/build_binaries.ts";
import { hostTarget } from "../../scripts/build_target.ts";
import { compileProgram } from "../../scripts/compile_form.ts";
import { PROGRAMS } from "../../scripts/program_files.ts";
import { makeRelease, makeReleaseKey, readReleaseKey } from "../../scripts/release.ts";
import { RoostDaemon, RoostHome } from "../../roost/testing/daemon.ts";
import { served } from "../support/served_directory.ts";

const ROOT = decodeURIComponent(new URL("../..", import.meta.url).pathname).replace(/\/$/, "");
const USER = 65_534;
/** What the example's capsule may call; nothing else is on the user's PATH. */
const COMMANDS = ["sh", "find", "git", "head", "sed", "sort", "uniq", "wc"];

interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A fresh user with a home nobody has used, on a machine where nothing but the system lies on the PATH. */
class FreshUser implements AsyncDisposable {
  /** Letters that mean something in a URL, a shell or a pattern. */
  readonly home: string;
  readonly bin: string;
  readonly commands: string;

  private constructor(readonly root: string) {
    this.home = `${root}/h\u00f6me of #1 50%20?`;
    this.bin = `${this.home}/.local/bin`;
    this.commands = `${root}/commands`;
  }

  static async make(): Promise<FreshUser> {
    const user = new FreshUser(await Deno.makeTempDir({ prefix: "installed " }));
    await Deno.chmod(user.root, 0o755);
    await Deno.mkdir(user.home);
    await Deno.mkdir(user.commands);
    for (const name of COMMANDS) {
      for (const folder of ["/usr/bin", "/bin"]) {
        if (await Deno.stat(`${folder}/${name}`).then(() => true, () => false)) {
          await Deno.symlink(`${folder}/${name}`, `${user.commands}/${name}`);
          break;
        }
      }
    }
    await user.own(user.home);
    return user;
  }

  async own(path: string): Promise<void> {
    if (Deno.uid() === 0) await new Deno.Command("chown", { args: ["-R", `${USER}:${USER}`, path] }).output();
  }

  /** A directory of the user's. */
  async folder(name: string, files: Readonly<Record<string, string>> = {}): Promise<string> {
    const path = `${this.home}/${name}`;
    await Deno.mkdir(path, { recursive: true });
    for (const [file, text] of Object.entries(files)) {
      const place = `${path}/${file}`;
      await Deno.mkdir(place.slice(0, place.lastIndexOf("/")), { recursive: true });
      await Deno.writeTextFile(place, text);
    }
    await this.own(path);
    return path;
  }

  /** The command line that runs another one as this user. */
  under(network = true): string[] {
    if (Deno.uid() !== 0) return network ? [] : ["unshare", "-rn"];
    const become = ["setpriv", `--reuid=${USER}`, `--regid=${USER}`, "--clear-groups", "--no-new-privs"];
    return network ? become : ["unshare", "-n", ...become];
  }

  async run(
    command: readonly string[],
    { cwd = this.home, env = {}, network = true, path = `${this.bin}:${this.commands}` }: {
      readonly cwd?: string;
      readonly env?: Readonly<Record<string, string>>;
      readonly network?: boolean;
      readonly path?: string;
    } = {},
  ): Promise<Ran> {
    // Found on this process's PATH, not on the user's.
    const [program, ...args] = [...this.under(network), "env", "-C", cwd, `PATH=${path}`, ...command];
    const { code, stdout, stderr } = await new Deno.Command(program!, {
      args,
      clearEnv: true,
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", HOME: this.home, NO_COLOR: "1", LANG: "C.UTF-8", ...env },
      cwd: "/",
      stdin: "null",
    }).output();
    const decoder = new TextDecoder();
    return { status: code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  }

  async mur(args: readonly string[], options: Parameters<FreshUser["run"]>[1] = {}): Promise<Ran> {
    return await this.run([`${this.bin}/mur`, ...args], options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.root, { recursive: true });
  }
}

function succeeded({ status, stdout, stderr }: Ran): string {
  assert.equal(status, 0, `${stdout}\n${stderr}`);
  return stdout;
}

Deno.test("from a release to the demo, for a fresh user with nothing else on the PATH", async (t) => {
  const release = await Deno.makeTempDir({ prefix: "release " });
  await using user = await FreshUser.make();
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
      await user.folder(".", { ".npmrc": hostile[".npmrc"], "deno.json": "{ broken", ".denorc": "x" });
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
  } finally {
    await Deno.remove(release, { recursive: true });
  }
});

Deno.test("two builds of one state, in two places, are the same bytes", async () => {
  const place = await Deno.makeTempDir({ prefix: "other place " });
  try {
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
    const [here] = await Promise.all([
      buildBinaries({ form: "portable", targets: [hostTarget()], programs: PROGRAMS, output: `${place}/here` }),
      (async () => {
        const { success, stderr } = await new Deno.Command(Deno.execPath(), {
          args: ["task", "--quiet", "build", "--form", "portable", "--output", `${place}/there`],
          cwd: copy,
        }).output();
        assert.ok(success, new TextDecoder().decode(stderr));
      })(),
    ]);
    assert.equal(here.length, 2);
    for (const { name, path } of here) {
      const [one, two] = [await Deno.readFile(path), await Deno.readFile(`${place}/there/${name}`)];
      assert.equal(one.length, two.length, name);
      assert.ok(one.every((byte, index) => byte === two[index]), `${name} differs`);
    }
  } finally {
    await Deno.remove(place, { recursive: true });
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
