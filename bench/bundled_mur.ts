/**
 * A project of a benchmark's own, and the bundled `mur` to run in it.
 *
 * @module
 */
import { denoDirectory } from "../base/program.ts";
import { bundleMur } from "../scripts/bundle.ts";
import { firstPartyComponents } from "../scripts/build_components.ts";

/** Where a benchmark runs. */
export interface BenchProject extends AsyncDisposable {
  readonly home: string;
  readonly project: string;
  /** Environment of every command; may be added to. */
  readonly env: Record<string, string>;
  /** Command line of the bundled program. */
  command(...args: string[]): Deno.Command;
  /** Runs it to its end and fails when it fails. */
  run(...args: string[]): Promise<string>;
}

/** Makes a project with a manifest and installs the artifacts it names. */
export async function benchProject(manifest: string, artifacts: readonly string[]): Promise<BenchProject> {
  const entry = await bundleMur();
  const archives = await firstPartyComponents(artifacts);
  const root = await Deno.makeTempDir({ prefix: "mur-bench-" });
  const home = `${root}/home`;
  const project = `${root}/project`;
  await Deno.mkdir(home);
  await Deno.mkdir(project);
  await Deno.writeTextFile(`${project}/murmur.yaml`, manifest);
  const env: Record<string, string> = { HOME: home, NO_COLOR: "1", DENO_DIR: denoDirectory()! };
  const command = (...args: string[]) =>
    new Deno.Command(Deno.execPath(), {
      // The project's own configuration is no part of the program.
      args: ["run", "--quiet", "--no-config", "-A", entry, ...args],
      cwd: project,
      env,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    });
  const run = async (...args: string[]) => {
    const { success, stdout, stderr } = await command(...args).output();
    const decoder = new TextDecoder();
    if (!success) throw new Error(`mur ${args.join(" ")} failed: ${decoder.decode(stderr)}`);
    return decoder.decode(stdout);
  };
  for (const archive of archives.values()) await run("install", archive);
  return {
    home,
    project,
    env,
    command,
    run,
    async [Symbol.asyncDispose]() {
      await Deno.remove(root, { recursive: true }).catch(() => {});
    },
  };
}
