/**
 * A command's context for tests: streams kept as text, an environment and a home of its own.
 *
 * @module
 */
import { formatWarning } from "../../base/errors.ts";
import { murmurHome } from "../../base/murmur_home.ts";
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "../../base/time_bounds.ts";
import type { CliContext, TextOutput } from "../../cli/context.ts";

/** A context and what was written to its streams. */
export interface TestContext extends CliContext {
  /** What stands on standard output. */
  out(): string;
  /** What stands on standard error. */
  err(): string;
}

/** Makes a context for a current directory; `HOME` is what `env` says and nothing by default. */
export function testContext(
  cwd: string,
  env: Readonly<Record<string, string>> = {},
  bounds: Partial<TimeBounds> = {},
): TestContext {
  let out = "";
  let err = "";
  const stream = (append: (text: string) => void): TextOutput => ({
    isTerminal: false,
    color: false,
    write: (text) => (append(text), true),
    writeBytes: (bytes) => (append(new TextDecoder().decode(bytes)), true),
    line: (text) => (append(`${text}\n`), true),
  });
  const environment = { get: (name: string) => env[name], toObject: () => ({ ...env }) };
  const stderr = stream((text) => err += text);
  return {
    cwd,
    env: environment,
    stdout: stream((text) => out += text),
    stderr,
    lostOutput: () => null,
    bounds: { ...DEFAULT_TIME_BOUNDS, ...bounds },
    home: () => murmurHome(environment, cwd),
    absoluteHome: () => murmurHome(environment),
    warn: (warning) => void stderr.line(formatWarning(warning)),
    progress: () => ({ update: () => {}, done: () => {} }),
    out: () => out,
    err: () => err,
  };
}

/** Runs `work` with a directory that is removed afterwards. */
export async function withTempDir(work: (directory: string) => Promise<void>): Promise<void> {
  const directory = await Deno.realPath(await Deno.makeTempDir());
  try {
    await work(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** Writes files below a directory, folders included. */
export async function writeFiles(directory: string, files: Readonly<Record<string, string | Uint8Array>>) {
  for (const [name, content] of Object.entries(files)) {
    const path = `${directory}/${name}`;
    await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    if (typeof content === "string") await Deno.writeTextFile(path, content);
    else await Deno.writeFile(path, content);
  }
}
