/**
 * Starting `deno test` as this user or as an ordinary one, and counting what it says.
 *
 * @module
 */

/** Outcome of one run. A run that broke off counts as one failure. */
export interface TestCount {
  readonly passed: number;
  readonly failed: number;
}

/** An ordinary user with a checkout, a home and a Deno of its own. */
export interface OrdinaryUser {
  readonly uid: number;
  readonly checkout: string;
  readonly home: string;
  readonly deno: string;
  readonly denoDir: string;
}

export interface TestRun {
  readonly directory: string;
  readonly paths: readonly string[];
  readonly user?: OrdinaryUser;
}

const SUMMARY = /^(?:ok|FAILED) \| (\d+) passed(?: \(\d+ steps?\))? \| (\d+) failed(?: \(\d+ steps?\))?/gm;

/** Reads the last summary of `deno test` output; `null` when there is none. */
export function readSummary(output: string): TestCount | null {
  // deno-lint-ignore no-control-regex
  const plain = output.replace(/\x1b\[[0-9;]*m/g, "");
  const last = [...plain.matchAll(SUMMARY)].at(-1);
  return last === undefined ? null : { passed: Number(last[1]), failed: Number(last[2]) };
}

async function existing(directory: string, paths: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const path of paths) {
    try {
      await Deno.stat(`${directory}/${path}`);
      found.push(path);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return found;
}

/** Runs `deno test` over some paths, passing its output through. */
export async function runTests(run: TestRun): Promise<TestCount> {
  const paths = await existing(run.directory, run.paths);
  if (paths.length === 0) return { passed: 0, failed: 0 };
  const args = ["test", "-A", "--quiet", ...paths];
  const { user } = run;
  const command = user === undefined
    ? new Deno.Command(Deno.execPath(), {
      args,
      cwd: run.directory,
      stdout: "piped",
      stderr: "piped",
      env: { NO_COLOR: "1" },
    })
    : new Deno.Command("setpriv", {
      args: [`--reuid=${user.uid}`, `--regid=${user.uid}`, "--clear-groups", "--no-new-privs", user.deno, ...args],
      cwd: run.directory,
      stdout: "piped",
      stderr: "piped",
      clearEnv: true,
      env: {
        HOME: user.home,
        DENO_DIR: user.denoDir,
        NO_COLOR: "1",
        PATH: `${user.deno.slice(0, user.deno.lastIndexOf("/"))}:${Deno.env.get("PATH") ?? "/usr/bin:/bin"}`,
        LANG: "C.UTF-8",
      },
    });
  const child = command.spawn();
  let output = "";
  const pass = async (stream: ReadableStream<Uint8Array>, to: { writeSync(bytes: Uint8Array): number }) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) {
      output += decoder.decode(chunk, { stream: true });
      for (let rest = chunk; rest.length > 0;) rest = rest.subarray(to.writeSync(rest));
    }
  };
  await Promise.all([pass(child.stdout, Deno.stdout), pass(child.stderr, Deno.stderr)]);
  const { success } = await child.status;
  const count = readSummary(output);
  if (count === null) return { passed: 0, failed: 1 };
  // A leak or an uncaught error fails the run without counting as a failed test.
  return success || count.failed > 0 ? count : { passed: count.passed, failed: 1 };
}

async function copyTree(from: string, to: string, link: boolean): Promise<void> {
  const modes = link ? [["-al"], ["-a"]] : [["-a"]];
  for (const mode of modes) {
    const { success } = await new Deno.Command("cp", { args: [...mode, from, to], stderr: "null" }).output();
    if (success) return;
    await Deno.remove(to, { recursive: true }).catch(() => {});
  }
  throw new Error(`cannot copy ${from}`);
}

async function cacheDirectory(): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  return (JSON.parse(new TextDecoder().decode(stdout)) as { denoDir: string }).denoDir;
}

/** Lets `action` work as user 65534 on a copy of the checkout, and removes everything afterwards. */
export async function asOrdinaryUser<T>(checkout: string, action: (user: OrdinaryUser) => Promise<T>): Promise<T> {
  const uid = 65534;
  const place = await Deno.makeTempDir({ prefix: "murmur-test-" });
  try {
    await Deno.chmod(place, 0o755);
    const bin = `${place}/bin`;
    await Deno.mkdir(bin);
    await copyTree(Deno.execPath(), `${bin}/deno`, true);
    const denoDir = `${place}/deno`;
    await Deno.mkdir(denoDir);
    // Hard links: only the directories are the copy's own, the cached packages stay unwritable to the other user.
    await copyTree(`${await cacheDirectory()}/npm`, `${denoDir}/npm`, true);
    const copy = `${place}/checkout`;
    await Deno.mkdir(copy);
    for await (const entry of Deno.readDir(checkout)) {
      if (entry.name === ".git" || entry.name === "workdir") continue;
      await copyTree(`${checkout}/${entry.name}`, `${copy}/${entry.name}`, false);
    }
    const home = `${place}/home`;
    await Deno.mkdir(home, { mode: 0o700 });
    const chown = async (...args: string[]) => {
      const { success } = await new Deno.Command("chown", { args: ["-h", ...args] }).output();
      if (!success) throw new Error("cannot hand the copy to the ordinary user");
    };
    await chown("-R", `${uid}:${uid}`, copy, home);
    await chown(`${uid}:${uid}`, denoDir);
    const { success } = await new Deno.Command("find", {
      args: [`${denoDir}/npm`, "-type", "d", "-exec", "chown", `${uid}:${uid}`, "{}", "+"],
    }).output();
    if (!success) throw new Error("cannot hand the package cache to the ordinary user");
    return await action({ uid, checkout: copy, home, deno: `${bin}/deno`, denoDir });
  } finally {
    await Deno.remove(place, { recursive: true }).catch(() => {});
  }
}
