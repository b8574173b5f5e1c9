/**
 * Runs code on a real disk that is almost full: a small tmpfs in a mount namespace of its own, which vanishes with the
 * process. Works as root and for users where the host gives them user namespaces.
 *
 * @module
 */

const UNSHARE = ["-r", "-m", "sh", "-c", 'mount -t tmpfs -o size=128k tmpfs "$1" && shift && exec "$@"', "sh"];

function unshare(args: readonly string[], directory: string): Deno.Command {
  return new Deno.Command("unshare", {
    args: [...UNSHARE, directory, ...args],
    cwd: new URL("../..", import.meta.url),
    stdout: "piped",
    stderr: "piped",
  });
}

/** Whether this host lets a test mount a tmpfs. Asked when tests are declared, so that a skip shows as ignored. */
export function canFillDisk(): boolean {
  if (Deno.build.os !== "linux") return false;
  const directory = Deno.makeTempDirSync();
  try {
    return unshare(["true"], directory).outputSync().success;
  } catch {
    return false;
  } finally {
    Deno.removeSync(directory);
  }
}

/**
 * Runs a module's text in a Deno process that sees a disk of 128 KiB at `directory`, and answers its standard output.
 * The text finds the path as `DIRECTORY`.
 */
export async function onSmallDisk(source: string): Promise<string> {
  const directory = await Deno.makeTempDir();
  try {
    const script = `const DIRECTORY = ${JSON.stringify(directory)};\n${source}`;
    const output = await unshare([Deno.execPath(), "eval", script], directory).output();
    const text = new TextDecoder().decode(output.stdout);
    if (!output.success) throw new Error(`${text}\n${new TextDecoder().decode(output.stderr)}`);
    return text;
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}
