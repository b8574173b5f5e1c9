/**
 * What `install.sh` does with releases whose programs are small scripts, under several shells. The real programs are installed
 * by a system test.
 *
 * @module
 */
import assert from "node:assert/strict";
import zlib from "node:zlib";
import {
  installerWithKey,
  makeReleaseKey,
  readReleaseKey,
  type ReleaseKey,
  signRelease,
} from "../../scripts/release.ts";
import { canMount, type OwnMount, withOwnMounts } from "./own_mounts.ts";
import { served } from "./served_directory.ts";

const SCRIPT = decodeURIComponent(new URL("../../install.sh", import.meta.url).pathname);

/** Everything the installer and the tests' programs may use; nothing else is on the PATH. */
const TOOLS = [
  ...["awk", "cat", "chmod", "cp", "curl", "getconf", "grep", "gzip", "ldd", "mkdir", "mktemp", "mv", "openssl", "rm"],
  ...["rmdir", "sed", "sh", "sha256sum", "tail", "tr", "uname", "wget"],
];
const HOST = `linux-${Deno.build.arch}`;

/** Words that start a shell. */
export type Shell = readonly [string, ...string[]];

let key: Promise<ReleaseKey> | null = null;
/** One key serves all tests: making one takes a while. */
const releaseKey = () => key ??= makeReleaseKey().then(readReleaseKey);

/** A program that answers its version, with some length to cut. */
function program(name: string, version: string, does = ""): string {
  return `#!/bin/sh\n${does}\necho '${name} ${version}'\nexit 0\n${"# filling\n".repeat(20_000)}`;
}

interface ReleaseOptions {
  readonly version?: string;
  readonly platform?: string;
  readonly roost?: boolean;
  readonly packed?: boolean;
  /** Text of `mur` in place of a working one. */
  readonly mur?: string;
}

/** Writes a release. */
async function writeRelease(directory: string, options: ReleaseOptions = {}): Promise<void> {
  const { version = "1.2.0", platform = HOST, roost = true, packed = false, mur } = options;
  await Deno.mkdir(directory, { recursive: true });
  for (const name of roost ? ["mur", "mur-roost"] : ["mur"]) {
    const text = name === "mur" && mur !== undefined ? mur : program(name, version);
    const bytes = new TextEncoder().encode(text);
    const file = `${directory}/${name}-${version}-${platform}`;
    if (packed) await Deno.writeFile(`${file}.gz`, zlib.gzipSync(bytes, { level: 0 }));
    else await Deno.writeFile(file, bytes);
    await Deno.writeTextFile(`${directory}/${name}.1`, `.TH ${name} 1\n`);
  }
  await Deno.writeTextFile(
    `${directory}/install.sh`,
    installerWithKey(await Deno.readTextFile(SCRIPT), (await releaseKey()).publicKey),
  );
  await signRelease(directory, await releaseKey());
}

interface Installed {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Where a tool is: busybox has its own of most. */
async function toolPath(tool: string, shell: readonly string[]): Promise<string> {
  const folders = ["/usr/local/bin", "/usr/bin", "/bin"];
  if (shell[0] === "busybox" && (await busyboxTools()).has(tool)) tool = "busybox";
  for (const folder of folders) {
    if (await Deno.stat(`${folder}/${tool}`).then(() => true, () => false)) return `${folder}/${tool}`;
  }
  throw new Error(`${tool} is not installed`);
}

async function busyboxTools(): Promise<Set<string>> {
  const { stdout } = await new Deno.Command("busybox", { args: ["--list"] }).output();
  return new Set(new TextDecoder().decode(stdout).split("\n"));
}

/** A place with a release, a home and a directory of stand-ins that come first on the PATH. */
class Place implements AsyncDisposable {
  readonly release: string;
  readonly home: string;
  readonly bin: string;
  readonly stubs: string;
  readonly tools: string;
  readonly #shell: Shell;

  private constructor(readonly root: string, shell: Shell) {
    this.release = `${root}/release`;
    this.home = `${root}/home`;
    this.bin = `${this.home}/.local/bin`;
    this.stubs = `${root}/stubs`;
    this.tools = `${root}/tools`;
    this.#shell = shell;
  }

  static async make(shell: Shell, options?: ReleaseOptions): Promise<Place> {
    const place = new Place(await Deno.makeTempDir({ prefix: "install é " }), shell);
    await Deno.mkdir(place.home);
    await Deno.mkdir(place.stubs);
    await Deno.mkdir(place.tools);
    for (const tool of TOOLS) await Deno.symlink(await toolPath(tool, shell), `${place.tools}/${tool}`);
    await writeRelease(place.release, options);
    return place;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Deno.Command("chmod", { args: ["-R", "u+rwX", this.root] }).output();
    await Deno.remove(this.root, { recursive: true });
  }

  /** Puts a command in front of the machine's own. */
  async stub(name: string, text: string): Promise<void> {
    await Deno.writeTextFile(`${this.stubs}/${name}`, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  }

  async install(options: {
    readonly args?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
    readonly script?: string;
    readonly piped?: boolean;
    readonly mounts?: readonly OwnMount[];
    /** Command line that starts the shell, in front of its own. */
    readonly under?: readonly string[];
  } = {}): Promise<Installed> {
    const { args = [], env = {}, script = `${this.release}/install.sh`, piped = false, mounts, under = [] } = options;
    const plain = [...this.#shell, ...piped ? ["-s", ...args.length > 0 ? ["--", ...args] : []] : [script, ...args]];
    // By its full path: what starts a program looks for it on this process's PATH, and the shell is no tool of the script.
    plain[0] = await toolPath(plain[0]!, []);
    const path = `${this.stubs}:${this.tools}`;
    // Mounting takes tools of the machine.
    const [command, ...rest] = mounts === undefined
      ? [...under, ...plain]
      : withOwnMounts(mounts, ["/usr/bin/env", `PATH=${path}`, ...plain]);
    const child = new Deno.Command(command!, {
      args: rest,
      clearEnv: true,
      env: {
        PATH: mounts === undefined ? path : "/usr/sbin:/usr/bin:/sbin:/bin",
        HOME: this.home,
        TMPDIR: this.root,
        // Whoever runs the tests may write to /usr/local/bin.
        MUR_INSTALL_DIR: this.bin,
        MURMUR_INSTALL_FROM: this.release,
        ...env,
      },
      cwd: this.root,
      stdin: piped ? "piped" : "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    if (piped) {
      const writer = child.stdin.getWriter();
      await writer.write(await Deno.readFile(script)).catch(() => {});
      await writer.close().catch(() => {});
    }
    const { code, stdout, stderr } = await child.output();
    const decoder = new TextDecoder();
    return { status: code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  }

  /** What stands in the install directory, hidden files too. */
  placed(): string[] {
    try {
      return [...Deno.readDirSync(this.bin)].map(({ name }) => name).sort();
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  }

  /** Nothing was placed, nothing is left over, and the reason was told. */
  assertRefused({ status, stderr }: Installed, says: RegExp, before: readonly string[] = []): void {
    assert.equal(status, 1, stderr);
    assert.match(stderr, /^error: /m);
    assert.match(stderr, says);
    assert.deepEqual(this.placed(), before);
    const left = [...Deno.readDirSync(this.root)].filter(({ name }) => name.startsWith("murmur-install"));
    assert.deepEqual(left, []);
  }
}

/** Declares the tests. Each runs under every shell at the same time: most of what they do is to wait for a program. */
export function declareInstallerTests(shells: readonly Shell[]): void {
  const test = (name: string, body: (shell: Shell) => Promise<void>, ignore = false) =>
    Deno.test({
      name,
      ignore,
      fn: async () => {
        const outcomes = await Promise.allSettled(shells.map(body));
        const failures = outcomes.flatMap((outcome, index) =>
          outcome.status === "rejected"
            ? [`${shells[index]!.join(" ")}: ${outcome.reason?.stack ?? outcome.reason}`]
            : []
        );
        assert.deepEqual(failures, [], failures.join("\n"));
      },
    });

  test("installs from a directory and from a server, piped or not, compressed or not", async (shell) => {
    for (const packed of [false, true]) {
      await using place = await Place.make(shell, { packed });
      await served(place.release, async (url) => {
        for (const from of [place.release, url, `${url}/`]) {
          for (const piped of [false, true]) {
            await Deno.remove(place.home, { recursive: true });
            const { status, stdout, stderr } = await place.install({ env: { MURMUR_INSTALL_FROM: from }, piped });
            assert.equal(status, 0, stderr);
            assert.deepEqual(place.placed(), ["mur", "mur-roost"]);
            assert.match(stdout, /^info: installed .*\/mur \(1\.2\.0\)$/m);
            assert.match(stdout, /mur doctor/);
            assert.match(stderr, /^warning: .* is not on your PATH/m);
            assert.ok((await Deno.stat(`${place.bin}/mur`)).mode! & 0o100);
            assert.ok((await Deno.stat(`${place.home}/.local/share/man/man1/mur-roost.1`)).isFile);
          }
        }
      });
    }
  });

  test("a cut script does nothing, wherever it is cut", async (shell) => {
    await using place = await Place.make(shell);
    const text = await Deno.readTextFile(`${place.release}/install.sh`);
    const end = text.trimEnd().length;
    const last = text.trimEnd().lastIndexOf("\n") + 1;
    const lengths = new Set([1, 20, 500, last, end - 1]);
    for (let tenth = 1; tenth < 10; tenth++) lengths.add(Math.floor(end * tenth / 10));
    for (let at = last; at < end; at += 3) lengths.add(at);
    for (const length of lengths) {
      await Deno.writeTextFile(`${place.root}/cut.sh`, text.slice(0, length));
      const { stdout } = await place.install({ script: `${place.root}/cut.sh`, piped: true });
      assert.equal(stdout, "", `cut at ${length}`);
      assert.deepEqual(place.placed(), [], `cut at ${length}`);
    }
  });

  test("a download that breaks off at any tenth places nothing, and the next one does", async (shell) => {
    await using place = await Place.make(shell);
    for (const victim of [`mur-1.2.0-${HOST}`, `mur-roost-1.2.0-${HOST}`, "checksums.txt"]) {
      for (let tenth = 0; tenth < 10; tenth++) {
        if (victim !== `mur-1.2.0-${HOST}` && tenth % 4 !== 1) continue;
        await served(
          place.release,
          async (url) =>
            place.assertRefused(
              await place.install({ env: { MURMUR_INSTALL_FROM: url } }),
              /nothing is installed/,
            ),
          (name, size) => name === victim ? Math.floor(size * tenth / 10) : null,
        );
      }
    }
    await served(place.release, async (url) => {
      assert.equal((await place.install({ env: { MURMUR_INSTALL_FROM: url } })).status, 0);
    });
  });

  test("a file that is not what is listed, a truncated archive, a forged list and a missing one are refused", async (shell) => {
    await using place = await Place.make(shell, { packed: true });
    const file = `${place.release}/mur-roost-1.2.0-${HOST}.gz`;
    const right = await Deno.readFile(file);
    const changed = right.slice();
    changed[changed.length >> 1]! ^= 1;
    await Deno.writeFile(file, changed);
    place.assertRefused(
      await place.install(),
      /is not what the release lists[\s\S]*expected [0-9a-f]{64}\n +actual +[0-9a-f]{64}/,
    );

    // Listed as it is, and still no whole archive.
    await Deno.writeFile(file, right.subarray(0, right.length >> 1));
    await signRelease(place.release, await releaseKey());
    place.assertRefused(await place.install(), /cannot be unpacked/);
    await Deno.writeFile(file, right);

    // A signature that is cut, or none of any length.
    const signature = await Deno.readFile(`${place.release}/checksums.txt.sig`);
    await signRelease(place.release, await releaseKey());
    for (const length of [0, 1, signature.length - 1]) {
      await Deno.writeFile(`${place.release}/checksums.txt.sig`, signature.subarray(0, length));
      place.assertRefused(await place.install(), /the signature of the release is wrong/);
    }

    // A list that somebody else made.
    await signRelease(place.release, await readReleaseKey(await makeReleaseKey()));
    place.assertRefused(await place.install(), /the signature of the release is wrong/);
    await Deno.remove(`${place.release}/checksums.txt.sig`);
    place.assertRefused(await place.install(), /the release has no signature/);
    await Deno.remove(`${place.release}/checksums.txt`);
    place.assertRefused(await place.install(), /has no checksums\.txt/);
  });

  test("a list that names a file twice, strangely, or in another way is refused, and nothing outside is touched", async (shell) => {
    await using place = await Place.make(shell);
    // Nobody checks a signature here: what is refused is so for what it says.
    await Deno.remove(`${place.tools}/openssl`);
    const list = `${place.release}/checksums.txt`;
    const right = await Deno.readTextFile(list);
    const line = right.split("\n").find((line) => line.endsWith(` mur-1.2.0-${HOST}`))!;
    const zeros = "0".repeat(64);
    for (
      const [text, says] of [
        [`${zeros}  mur-1.2.0-${HOST}\n${right}`, /lists mur-1\.2\.0-.* more than once/],
        [`${right}${line}\n`, /more than once/],
        [right.replaceAll("  ", " *"), /has no mur for/],
        [right.replace(line, line.slice(0, 40) + line.slice(64)), /is not what the release lists/],
        [right.replace(line, line.toUpperCase().replace(/ .*/, line.slice(64))), /is not what the release lists/],
        [`${zeros}  mur-../../escape-${HOST}\n`, /strange version/],
        [`${zeros}  mur-1;touch\${IFS}escape-${HOST}\n`, /strange version/],
        [`${zeros}  mur-*-${HOST}\n`, /strange version/],
        [`${zeros}  mur--${HOST}\n`, /cannot be fetched|has no mur/],
        ["", /has no mur for/],
        ["\0\0\n", /has no mur for/],
      ] as const
    ) {
      await Deno.writeTextFile(list, text);
      place.assertRefused(await place.install(), says);
      assert.deepEqual([...Deno.readDirSync(place.root)].filter(({ name }) => name.includes("escape")), [], text);
    }
    // To one awk the end of such a line is a blank, to another a letter.
    await Deno.writeTextFile(list, right.replaceAll("\n", "\r\n"));
    const { status } = await place.install();
    assert.deepEqual(place.placed(), status === 0 ? ["mur", "mur-roost"] : []);
    // Names that lead elsewhere are only names.
    await Deno.writeTextFile(list, `${zeros}  ../../escape\n${right}`);
    assert.equal((await place.install()).status, 0);
  });

  test("a place of a release that is an option, no address, or relative", async (shell) => {
    await using place = await Place.make(shell);
    for (const from of ["-o", "--help", "ftp://127.0.0.1/x", "file:///etc", "http://127.0.0.1:1", "$(touch escape)"]) {
      place.assertRefused(
        await place.install({ env: { MURMUR_INSTALL_FROM: from } }),
        /has no checksums\.txt, or it cannot be fetched: nothing is installed/,
      );
    }
    assert.equal((await place.install({ env: { MURMUR_INSTALL_FROM: "release" } })).status, 0);
    await Deno.rename(place.release, `${place.root}/-release`);
    const script = `${place.root}/-release/install.sh`;
    assert.equal((await place.install({ env: { MURMUR_INSTALL_FROM: "-release" }, script })).status, 0);
  });

  test("another program of the same name is neither replaced nor removed; one of ours that is broken is both", async (shell) => {
    await using place = await Place.make(shell);
    await Deno.mkdir(place.bin, { recursive: true });
    for (const foreign of ["#!/bin/sh\necho 'mur the cat'\n", "#!/bin/sh\nexit 3\n", "no program"]) {
      await Deno.writeTextFile(`${place.bin}/mur`, foreign, { mode: 0o755 });
      place.assertRefused(await place.install(), /\/mur is another program: nothing is installed/, ["mur"]);
      const { status, stderr } = await place.install({ args: ["--uninstall"] });
      assert.equal(status, 0);
      assert.match(stderr, /^warning: left: .*\/mur, which is another program$/m);
      assert.equal(await Deno.readTextFile(`${place.bin}/mur`), foreign);
    }
    await Deno.writeTextFile(`${place.bin}/mur`, "broken\0\0MURPACK1", { mode: 0o644 });
    assert.equal((await place.install()).status, 0);
    await Deno.writeTextFile(`${place.bin}/mur-roost`, "#!/bin/false\nMURPACK1", { mode: 0o755 });
    assert.equal((await place.install({ args: ["--uninstall"] })).status, 0);
    assert.deepEqual(place.placed(), []);
  });

  test("whatever the umask, nobody else may write what was made; a closed one stays closed", async (shell) => {
    for (const [umask, mode] of [["000", 0o755], ["002", 0o775], ["022", 0o755], ["077", 0o700]] as const) {
      await using place = await Place.make(shell);
      const under = ["/bin/sh", "-c", `umask ${umask}; exec "$@"`, "sh"];
      assert.equal((await place.install({ under })).status, 0);
      for (const path of [place.bin, `${place.home}/.local/share/man/man1`]) {
        assert.equal((await Deno.stat(path)).mode! & 0o7777, mode, `${umask} ${path}`);
      }
      for (const name of ["mur", "mur-roost"]) {
        assert.equal((await Deno.stat(`${place.bin}/${name}`)).mode! & 0o7777, 0o755, `${umask} ${name}`);
      }
    }
  });

  test("a home with letters that mean something to a shell; the hint then is no command", async (shell) => {
    await using place = await Place.make(shell);
    for (const [name, command] of [["a b \u00e9", true], ["it's", false], ['a"b', false], ["a\nb", false]] as const) {
      const home = `${place.root}/${name}$(touch escape)`.slice(0, command ? -"$(touch escape)".length : undefined);
      await Deno.mkdir(home);
      const { status, stderr } = await place.install({
        env: { HOME: home, MUR_INSTALL_DIR: `${home}/.local/bin`, TMPDIR: home, SHELL: "/bin/bash" },
      });
      assert.equal(status, 0, stderr);
      assert.equal(/^ {2}echo 'export PATH=/m.test(stderr), command, stderr);
      assert.match(stderr, /is not on your PATH; add it/);
      assert.deepEqual([...Deno.readDirSync(`${home}/.local/bin`)].map(({ name }) => name).sort(), [
        "mur",
        "mur-roost",
      ]);
      assert.deepEqual([...Deno.readDirSync(home)].map(({ name }) => name), [".local"]);
      await place.install({ args: ["--uninstall"], env: { HOME: home, MUR_INSTALL_DIR: `${home}/.local/bin` } });
      assert.deepEqual([...Deno.readDirSync(`${home}/.local/bin`)], []);
    }
    assert.deepEqual([...Deno.readDirSync(place.root)].filter(({ name }) => name === "escape"), []);
  });

  test("a reader that goes away ends it with nothing left over", async (shell) => {
    await using place = await Place.make(shell);
    const script = `"$@" | { read -r _; }`;
    const under = ["/bin/sh", "-c", script, "sh"];
    await place.install({ under });
    const left = [...Deno.readDirSync(place.root)].filter(({ name }) => name.startsWith("murmur-install"));
    assert.deepEqual([left, place.placed().filter((name) => name.startsWith("."))], [[], []]);
  });

  test("without openssl it says that only checksums were checked; without a hash it installs nothing", async (shell) => {
    await using place = await Place.make(shell);
    await Deno.remove(`${place.tools}/openssl`);
    const few = await place.install();
    assert.equal(few.status, 0, few.stderr);
    assert.match(few.stderr, /^warning: openssl is not here: the signature is not checked/m);
    await Deno.remove(place.home, { recursive: true });
    await Deno.rename(`${place.tools}/sha256sum`, `${place.tools}/elsewhere`);
    place.assertRefused(await place.install(), /sha256sum or shasum is needed/);
    await Deno.rename(`${place.tools}/elsewhere`, `${place.tools}/sha256sum`);
    const keyless = await place.install({ script: SCRIPT });
    assert.equal(keyless.status, 0);
    assert.match(keyless.stderr, /^warning: this copy of the installer has no key/m);
  });

  test("with wget in place of curl: a whole download is installed, a broken one is not; without either, nothing", async (shell) => {
    await using place = await Place.make(shell);
    await Deno.remove(`${place.tools}/curl`);
    const broken = (name: string, size: number) => name === `mur-1.2.0-${HOST}` ? size >> 1 : null;
    await served(place.release, async (url) => {
      place.assertRefused(await place.install({ env: { MURMUR_INSTALL_FROM: url } }), /nothing is installed/);
    }, broken);
    await served(place.release, async (url) => {
      assert.equal((await place.install({ env: { MURMUR_INSTALL_FROM: url } })).status, 0);
      await Deno.remove(place.home, { recursive: true });
      await Deno.remove(`${place.tools}/wget`);
      place.assertRefused(await place.install({ env: { MURMUR_INSTALL_FROM: url } }), /curl or wget is needed/);
    });
  });

  test("a program that does not start leaves what was there before", async (shell) => {
    await using place = await Place.make(shell);
    assert.equal((await place.install()).status, 0);
    const before = await Deno.readTextFile(`${place.bin}/mur`);
    for (
      const [mur, says] of [
        [
          program("mur", "1.3.0", "echo 'version GLIBC_2.99 not found' >&2; exit 1"),
          /GLIBC_2\.99[\s\S]*does not start here/,
        ],
        ["\x7fELF not a program", /does not start here/],
        [program("mur", "9.9.9"), /says it is 'mur 9\.9\.9', not version 1\.3\.0/],
      ] as const
    ) {
      await Deno.remove(place.release, { recursive: true });
      await writeRelease(place.release, { version: "1.3.0", mur });
      place.assertRefused(await place.install(), says, ["mur", "mur-roost"]);
      assert.equal(await Deno.readTextFile(`${place.bin}/mur`), before);
    }
  });

  test("upgrades and says so, leaves a newer version, goes back when told to", async (shell) => {
    await using place = await Place.make(shell);
    const versionOf = async () => {
      const { stdout } = await new Deno.Command(`${place.bin}/mur`, { args: ["--version"] }).output();
      return new TextDecoder().decode(stdout).trim();
    };
    const release = async (version: string) => {
      await Deno.remove(place.release, { recursive: true });
      await writeRelease(place.release, { version });
      return await place.install();
    };
    assert.equal((await place.install()).status, 0);
    assert.match((await release("1.10.0")).stdout, /^info: replacing mur 1\.2\.0 in /m);
    assert.equal(await versionOf(), "mur 1.10.0");
    for (const older of ["1.9.9", "1.10.0-rc.1", "0.99.99"]) {
      const { status, stdout } = await release(older);
      assert.equal(status, 0);
      assert.match(stdout, /mur 1\.10\.0 in .* is newer than .* and is left; to go back: MUR_VERSION=/);
      assert.equal(await versionOf(), "mur 1.10.0");
    }
    for (const newer of ["1.10.1-rc.2", "1.10.1-rc.10", "1.10.1", "2.0.0"]) {
      assert.equal((await release(newer)).status, 0);
      assert.equal(await versionOf(), `mur ${newer}`);
    }
    await Deno.remove(place.release, { recursive: true });
    await writeRelease(place.release, { version: "1.2.0" });
    assert.equal((await place.install({ env: { MUR_VERSION: "v1.2.0" } })).status, 0);
    assert.equal(await versionOf(), "mur 1.2.0");
    place.assertRefused(await place.install({ args: ["--version", "5.0.0"] }), /has no mur 5\.0\.0 for/, [
      "mur",
      "mur-roost",
    ]);
    place.assertRefused(await place.install({ args: ["--version", "../x"] }), /is no version/, ["mur", "mur-roost"]);
  });

  test("a directory that cannot be written, a directory in the way, a full disk", async (shell) => {
    await using place = await Place.make(shell);
    await Deno.mkdir(`${place.bin}/mur`, { recursive: true });
    place.assertRefused(await place.install(), /\/mur is a directory/, ["mur"]);
    await Deno.remove(place.bin, { recursive: true });
    await Deno.writeTextFile(`${place.root}/file`, "");
    const inFile = await place.install({ args: ["--dir", `${place.root}/file/bin`] });
    assert.equal(inFile.status, 1);
    assert.match(inFile.stderr, /cannot be written/);
    // To root every directory can be written.
    await Deno.chmod(place.root, 0o755);
    await Deno.mkdir(place.bin, { recursive: true });
    await Deno.chmod(place.bin, 0o555);
    const under = Deno.uid() === 0 ? ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] : [];
    place.assertRefused(
      await place.install({ under, env: { TMPDIR: "/tmp" } }),
      /cannot be written[\s\S]*MUR_INSTALL_DIR/,
    );
  });

  test("a full disk places nothing", async (shell) => {
    await using place = await Place.make(shell);
    await Deno.mkdir(place.bin, { recursive: true });
    await Deno.mkdir(`${place.root}/kept`);
    const { status, stderr } = await place.install({
      // The first program fits, the second does not.
      mounts: [{ at: place.bin, kilobytes: 300, keep: `${place.root}/kept` }],
    });
    assert.equal(status, 1);
    assert.match(stderr, /nothing is installed/);
    assert.deepEqual([...Deno.readDirSync(`${place.root}/kept`)], []);
  }, !canMount());

  test("what a machine is, and what it cannot run", async (shell) => {
    await using place = await Place.make(shell);
    const refused = async (says: RegExp) => place.assertRefused(await place.install(), says);
    const stubbed = async (name: string, text: string, says: RegExp) => {
      await place.stub(name, text);
      await refused(says);
    };
    await stubbed("uname", "case $1 in -s) echo FreeBSD ;; *) echo amd64 ;; esac", /there are no programs for FreeBSD/);
    await stubbed("uname", "case $1 in -s) echo MINGW64_NT-10 ;; *) echo x86_64 ;; esac", /Windows is not supported/);
    await stubbed("uname", "case $1 in -s) echo Linux ;; *) echo riscv64 ;; esac", /the processor riscv64/);
    await stubbed(
      "uname",
      "case $1 in -s) echo Darwin ;; *) echo arm64 ;; esac",
      /this release has no mur for darwin-aarch64\n +it has: mur-1\.2\.0-linux/,
    );
    await place.stub("sysctl", "echo 1");
    await stubbed("uname", "case $1 in -s) echo Darwin ;; *) echo x86_64 ;; esac", /darwin-aarch64/);
    await Deno.remove(`${place.stubs}/uname`);

    await place.stub("getconf", "exit 1");
    await place.stub("ldd", "echo 'musl libc (x86_64)' >&2; echo 'Version 1.2.4' >&2; exit 1");
    await refused(/the C library musl/);
    await place.stub("ldd", "echo 'ldd (Debian GLIBC 2.31-13+deb11u11) 2.31'");
    await refused(/this system has glibc 2\.31; the programs need 2\.34 or newer/);
    await place.stub("getconf", "echo 'glibc 2.33'");
    await refused(/glibc 2\.33/);
    await place.stub("getconf", "echo 'glibc 2.34'");
    assert.equal((await place.install()).status, 0);
    await place.stub("getconf", "echo 'glibc 3.1'");
    assert.equal((await place.install()).status, 0);
  });

  test("a release without mur-roost, one of several versions, none for this machine", async (shell) => {
    await using place = await Place.make(shell, { roost: false });
    const { status, stderr } = await place.install();
    assert.equal(status, 0);
    assert.match(stderr, /^warning: this release has no mur-roost.*E-RUN-019/m);
    assert.deepEqual(place.placed(), ["mur"]);
    await Deno.remove(place.home, { recursive: true });
    await writeRelease(place.release, { version: "1.3.0" });
    place.assertRefused(await place.install(), /more than one version[\s\S]*MUR_VERSION/);
    assert.equal((await place.install({ args: ["--version", "1.3.0"] })).status, 0);
  });

  test("the latest release is where its page leads, in the same repository only", async (shell) => {
    await using place = await Place.make(shell);
    // Stands in for the one host that tests must not reach.
    const curl = (leads: string) =>
      place.stub(
        "curl",
        `
out= url=
for each; do case $prev in -o) out=$each ;; esac; prev=$each; url=$each; done
case $* in
  *'%{url_effective}'*) printf %s '${leads}' ;;
  *) echo "$url" >> '${place.root}/asked'; cp '${place.release}/'"\${url##*/}" "$out" ;;
esac`,
      );
    const env = { MURMUR_INSTALL_FROM: "", MUR_REPO: "some/fork" };
    await curl("https://github.com/some/fork/releases/tag/v1.2.0");
    const { status, stderr } = await place.install({ env });
    assert.equal(status, 0, stderr);
    const asked = (await Deno.readTextFile(`${place.root}/asked`)).trim().split("\n");
    for (const url of asked) assert.ok(url.startsWith("https://github.com/some/fork/releases/download/v1.2.0/"), url);
    await Deno.remove(place.home, { recursive: true });
    for (
      const leads of [
        "https://github.com/other/repo/releases/tag/v1.2.0",
        "https://example.org/some/fork/releases/tag/v1.2.0",
        "https://github.com/some/fork/releases",
        "https://github.com/some/fork/releases/tag/v1;x",
        "",
      ]
    ) {
      await curl(leads);
      place.assertRefused(await place.install({ env }), /the latest release/);
    }
  });

  test("quiet says nothing but warnings; the hint fits the shell; unknown options are refused", async (shell) => {
    await using place = await Place.make(shell);
    const quiet = await place.install({
      args: ["--quiet"],
      env: { PATH: `${place.stubs}:${place.tools}:${place.bin}` },
    });
    assert.deepEqual([quiet.status, quiet.stdout, quiet.stderr], [0, "", ""]);
    for (
      const [SHELL, says] of [
        ["/usr/bin/fish", /fish_add_path ".*\/\.local\/bin"/],
        ["/bin/zsh", /echo 'export PATH=".*\/\.local\/bin:\$PATH"' >> ~\/\.zshrc/],
        ["/bin/bash", />> ~\/\.bashrc/],
        ["/bin/ksh", />> ~\/\.profile/],
      ] as const
    ) {
      assert.match((await place.install({ env: { SHELL } })).stderr, says);
    }
    place.assertRefused(await place.install({ args: ["--no-such"] }), /unknown option: --no-such/, [
      "mur",
      "mur-roost",
    ]);
    assert.match((await place.install({ args: ["--help"] })).stdout, /^usage: install\.sh/);
  });

  test("uninstalling removes the programs and what they unpacked, and nothing else", async (shell) => {
    await using place = await Place.make(shell);
    assert.equal((await place.install()).status, 0);
    const cache = `${place.home}/.cache/murmur`;
    const hash = "0123456789abcdef".repeat(2);
    const unpacked = ["deno", "mur", "mur-roost"].map((name) => `${cache}/${name}-${hash}`);
    for (const path of [`${unpacked[0]}/cache`, ...unpacked.slice(1), `${place.home}/.murmur`]) {
      await Deno.mkdir(path, { recursive: true });
    }
    await Deno.writeTextFile(`${cache}/.lock-mur`, "");
    await Deno.mkdir(`${cache}/.unpacking-mur@12-old`);
    await Deno.mkdir(`${place.bin}/.murmur-install.AbCdEf`);
    await Deno.writeTextFile(`${place.bin}/other`, "");
    const { status, stdout } = await place.install({ args: ["--uninstall"] });
    assert.equal(status, 0);
    assert.match(stdout, /left: .*\.murmur/);
    assert.deepEqual(place.placed(), ["other"]);
    assert.deepEqual([...Deno.readDirSync(`${place.home}/.local/share/man/man1`)], []);
    await assert.rejects(Deno.stat(cache), Deno.errors.NotFound);
    assert.ok((await Deno.stat(`${place.home}/.murmur`)).isDirectory);
    assert.match((await place.install({ args: ["--uninstall"] })).stdout, /nothing of mur is in/);

    // A directory with something else in it stays, with that.
    const mine = ["notes", "deno-projects", "mur-notes", `mur-x-${hash}`, `deno-${hash}0`, ".lock-other"];
    for (const name of [...mine, `deno-${hash}`]) await Deno.mkdir(`${place.root}/mine/${name}`, { recursive: true });
    await place.install({ args: ["--uninstall"], env: { MURMUR_CACHE_DIR: `${place.root}/mine` } });
    assert.deepEqual([...Deno.readDirSync(`${place.root}/mine`)].map(({ name }) => name).sort(), [...mine].sort());
    // Neither a link nor a relative place is one that the programs use.
    await Deno.mkdir(`${place.root}/mine/deno-${hash}`);
    await Deno.symlink(`${place.root}/mine`, `${place.root}/murmur`);
    for (
      const [name, value] of [["MURMUR_CACHE_DIR", `${place.root}/murmur`], ["MURMUR_CACHE_DIR", "mine"], [
        "XDG_CACHE_HOME",
        ".",
      ]] as const
    ) {
      const env = { [name]: value };
      await place.install({ args: ["--uninstall"], env });
      assert.ok((await Deno.stat(`${place.root}/mine/deno-${hash}`)).isDirectory);
    }
  });
}
