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

/** Runs of `deno test` at the same time: one more than can compute, since the tests wait a good part of their time. */
const LANES = navigator.hardwareConcurrency + 1;

/** Test files in one run of `deno test`: few enough that no run outlasts all others by far. */
const FILES_A_RUN = 6;

const SUMMARY = /^(?:ok|FAILED) \| (\d+) passed(?: \(\d+ steps?\))? \| (\d+) failed(?: \(\d+ steps?\))?/gm;

/** Above what `deno test` says about the tests that failed. */
const ERRORS = "\n ERRORS \n";

/** Reads the last summary of `deno test` output; `null` when there is none. */
export function readSummary(output: string): TestCount | null {
  // deno-lint-ignore no-control-regex
  const plain = output.replace(/\x1b\[[0-9;]*m/g, "");
  const last = [...plain.matchAll(SUMMARY)].at(-1);
  return last === undefined ? null : { passed: Number(last[1]), failed: Number(last[2]) };
}

/**
 * The test files at and below some paths, in their order and those of one folder behind each other, each once. A path that
 * is not there has none.
 */
export async function testFiles(directory: string, paths: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const path of paths) {
    const files: string[] = [];
    const folders: string[] = [];
    try {
      if ((await Deno.stat(`${directory}/${path}`)).isFile) {
        found.push(path);
        continue;
      }
      for await (const { name, isDirectory } of Deno.readDir(`${directory}/${path}`)) {
        if (isDirectory) folders.push(`${path}/${name}`);
        else if (name.endsWith("_test.ts")) files.push(`${path}/${name}`);
      }
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) continue;
      throw error;
    }
    found.push(...files.sort(), ...await testFiles(directory, folders.sort()));
  }
  return [...new Set(found)];
}

/** Puts files that follow each other in one folder together, as many as one run takes. */
export function batches(files: readonly string[], most: number): string[][] {
  const made: string[][] = [];
  const folderOf = (path: string) => path.slice(0, path.lastIndexOf("/") + 1);
  for (const file of files) {
    const last = made.at(-1);
    if (last !== undefined && last.length < most && folderOf(last[0]!) === folderOf(file)) last.push(file);
    else made.push([file]);
  }
  return made;
}

/** Something that takes its turn among runs of tests and is counted with them. */
export interface TestJob {
  /** Files that are tested, or what else is done; above its output. */
  readonly title: string;
  /** Does it, writing its output as it comes. */
  run(write: Write): Promise<TestCount>;
}

type Write = (bytes: Uint8Array<ArrayBuffer>) => void;

const toStandardOutput: Write = (bytes) => {
  for (let rest = bytes; rest.length > 0;) rest = rest.subarray(Deno.stdout.writeSync(rest));
};

const print = (text: string) => toStandardOutput(new TextEncoder().encode(text));

/** Spawns a command and passes on what it writes. */
async function passOn(command: Deno.Command, write: Write): Promise<{ success: boolean; output: string }> {
  const child = command.spawn();
  let output = "";
  const pass = async (stream: ReadableStream<Uint8Array<ArrayBuffer>>) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) {
      output += decoder.decode(chunk, { stream: true });
      write(chunk);
    }
  };
  await Promise.all([pass(child.stdout), pass(child.stderr)]);
  return { success: (await child.status).success, output };
}

/** Runs `deno test` over paths that are there. */
async function denoTest(
  { directory, paths, user }: TestRun,
  flags: readonly string[],
  write: Write,
): Promise<TestCount> {
  const args = ["test", "-A", "--quiet", ...flags, ...paths];
  const common = { cwd: directory, stdout: "piped", stderr: "piped" } as const;
  const command = user === undefined
    ? new Deno.Command(Deno.execPath(), { ...common, args, env: { NO_COLOR: "1" } })
    : new Deno.Command("setpriv", {
      ...common,
      args: [`--reuid=${user.uid}`, `--regid=${user.uid}`, "--clear-groups", "--no-new-privs", user.deno, ...args],
      clearEnv: true,
      env: {
        HOME: user.home,
        DENO_DIR: user.denoDir,
        NO_COLOR: "1",
        PATH: `${user.deno.slice(0, user.deno.lastIndexOf("/"))}:${Deno.env.get("PATH") ?? "/usr/bin:/bin"}`,
        LANG: "C.UTF-8",
      },
    });
  const { success, output } = await passOn(command, write);
  const count = readSummary(output);
  if (count === null) return { passed: 0, failed: 1 };
  // A leak or an uncaught error fails the run without counting as a failed test.
  return success || count.failed > 0 ? count : { passed: count.passed, failed: 1 };
}

/** Runs the tests at some paths in one process, types checked, passing its output through. */
export async function runTests(run: TestRun): Promise<TestCount> {
  const paths = await testFiles(run.directory, run.paths);
  if (paths.length === 0) return { passed: 0, failed: 0 };
  return await denoTest({ ...run, paths }, [], toStandardOutput);
}

/** Jobs that run the tests at some paths in several processes. They do not check types. */
export async function testJobs(run: TestRun, filesARun = FILES_A_RUN): Promise<TestJob[]> {
  return batches(await testFiles(run.directory, run.paths), filesARun).map((paths) => ({
    title: paths.join(" "),
    run: (write) => denoTest({ ...run, paths }, ["--no-check"], write),
  }));
}

/** A job that runs Deno with other arguments, and counts as a failure when it fails. */
export function denoJob(title: string, directory: string, args: readonly string[]): TestJob {
  const command = () =>
    new Deno.Command(Deno.execPath(), {
      args: [...args],
      cwd: directory,
      stdout: "piped",
      stderr: "piped",
      env: { NO_COLOR: "1" },
    });
  return {
    title,
    run: async (write) => ({ passed: 0, failed: (await passOn(command(), write)).success ? 0 : 1 }),
  };
}

/** Checks the types of the whole project, so that the next check of the same state has nothing to do. */
export function typeCheck(directory: string): TestJob {
  return denoJob("the types of everything", directory, ["check", "--quiet"]);
}

/**
 * Does jobs side by side, begun in their order. The output of each is written in one piece when it ends, the errors once
 * more at the end.
 */
export async function runJobs(jobs: readonly TestJob[], write: (text: string) => void = print): Promise<TestCount> {
  const waiting = [...jobs];
  const failures: string[] = [];
  let total: TestCount = { passed: 0, failed: 0 };
  const lane = async () => {
    for (let job: TestJob | undefined; (job = waiting.shift()) !== undefined;) {
      const title = `\n== ${job.title}\n`;
      const chunks: Uint8Array<ArrayBuffer>[] = [];
      const count = await job.run((bytes) => void chunks.push(bytes));
      const output = await new Blob(chunks).text();
      write(title + output);
      if (count.failed > 0) failures.push(title + output.slice(Math.max(0, output.indexOf(ERRORS))));
      total = { passed: total.passed + count.passed, failed: total.failed + count.failed };
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  if (failures.length > 0) write(`\n==== once more, what failed\n${failures.join("")}`);
  return total;
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
