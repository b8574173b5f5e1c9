/**
 * Running the real `mur` as a process of its own, with a home and a project that belong to the test.
 *
 * @module
 */
import { type OwnMount, withOwnMounts } from "./own_mounts.ts";

const MAIN = new URL("../../cli/main.ts", import.meta.url).pathname;
const CONFIG = new URL("../../deno.json", import.meta.url).pathname;

/** A finished run. */
export interface Finished {
  readonly status: number;
  readonly signal: Deno.Signal | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface MurOptions {
  readonly cwd: string;
  readonly home: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  /** What it sees mounted; see {@linkcode canMount}. */
  readonly mounts?: readonly OwnMount[];
  /** Command line that starts it, in front of its own: another user, fewer rights. */
  readonly under?: readonly string[];
  /** Main module instead of the program's own, e.g. one with other time bounds. */
  readonly main?: string;
}

/** Command line in front of another one that then runs as an ordinary user: without capabilities, whoever runs the tests. */
export const AS_NOBODY: readonly string[] = ["unshare", "--user", "--map-user=65534", "--map-group=65534", "--"];

/** The command line that starts `mur` from this checkout. */
export function murCommand(args: readonly string[], main: string = MAIN): readonly [string, ...string[]] {
  return [Deno.execPath(), "run", "--quiet", "-A", "--config", CONFIG, main, ...args];
}

/** Environment of a test's `mur`: cleared but for what every program needs. */
export function murEnvironment(options: Pick<MurOptions, "home" | "env">): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name of ["PATH", "DENO_DIR", "LANG", "TMPDIR", "NPM_CONFIG_REGISTRY"]) {
    const value = Deno.env.get(name);
    if (value !== undefined) kept[name] = value;
  }
  // The package cache of the tests is where it is, whatever HOME the program under test has.
  kept.DENO_DIR ??= `${Deno.env.get("HOME")}/.cache/deno`;
  return { ...kept, HOME: options.home, NO_COLOR: "1", ...options.env };
}

/** Starts `mur` with piped streams. */
export function spawnMur(args: readonly string[], options: MurOptions): Deno.ChildProcess {
  const command: readonly string[] = [...options.under ?? [], ...murCommand(args, options.main)];
  const [program, ...rest] = options.mounts === undefined ? command : withOwnMounts(options.mounts, command);
  return new Deno.Command(program!, {
    args: rest,
    cwd: options.cwd,
    clearEnv: true,
    env: murEnvironment(options),
    stdin: options.stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** Runs `mur` to its end. */
export async function runMur(args: readonly string[], options: MurOptions): Promise<Finished> {
  const child = spawnMur(args, options);
  if (options.stdin !== undefined) {
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(options.stdin)).catch(() => {});
    await writer.close().catch(() => {});
  }
  const { code, signal, stdout, stderr } = await child.output();
  const decoder = new TextDecoder();
  return { status: code, signal, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/** Directories of one test; removed when it is disposed of. */
export interface Sandbox extends AsyncDisposable {
  readonly root: string;
  readonly home: string;
  readonly project: string;
  /** Runs `mur` in the project. */
  mur(args: readonly string[], options?: Partial<MurOptions>): Promise<Finished>;
  /** Writes a file of the project, making its directories. */
  write(path: string, content: string | Uint8Array): Promise<void>;
  read(path: string): Promise<string>;
}

/** A fresh home and project. */
export async function sandbox(): Promise<Sandbox> {
  const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "mur-test-" }));
  const home = `${root}/home`;
  const project = `${root}/project`;
  await Deno.mkdir(home);
  await Deno.mkdir(project);
  return {
    root,
    home,
    project,
    mur: (args, options = {}) => runMur(args, { cwd: project, home, ...options }),
    async write(path, content) {
      const full = `${project}/${path}`;
      await Deno.mkdir(full.slice(0, full.lastIndexOf("/")), { recursive: true });
      if (typeof content === "string") await Deno.writeTextFile(full, content);
      else await Deno.writeFile(full, content);
    },
    read: (path) => Deno.readTextFile(`${project}/${path}`),
    async [Symbol.asyncDispose]() {
      await Deno.remove(root, { recursive: true }).catch(() => {});
    },
  };
}
