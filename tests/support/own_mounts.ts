/**
 * Programs that see a file system of their own making: mounts in a namespace that vanishes with the process. Works as root
 * and for users where the host gives them user namespaces.
 *
 * @module
 */

/** A small disk at a directory, or a file in the place of another one. */
export type OwnMount =
  | { readonly at: string; readonly kilobytes: number }
  | { readonly at: string; readonly file: string };

const SCRIPT = `
while [ "$1" != -- ]; do
  case $1 in
    disk) mount -t tmpfs -o "size=$2k" tmpfs "$3" || exit 99 ;;
    file) mount --bind "$2" "$3" || exit 99 ;;
  esac
  shift 3
done
shift
exec "$@"`;

/** The command line that runs another one among mounts of its own. */
export function withOwnMounts(mounts: readonly OwnMount[], command: readonly string[]): [string, ...string[]] {
  const wanted = mounts.flatMap((mount) =>
    "file" in mount ? ["file", mount.file, mount.at] : ["disk", String(mount.kilobytes), mount.at]
  );
  return ["unshare", "-r", "-m", "sh", "-c", SCRIPT, "sh", ...wanted, "--", ...command];
}

/** Whether this host lets a test mount. Asked when tests are declared, so that a skip shows as ignored. */
export function canMount(): boolean {
  if (Deno.build.os !== "linux") return false;
  const directory = Deno.makeTempDirSync();
  try {
    const [program, ...args] = withOwnMounts([{ at: directory, kilobytes: 128 }], ["true"]);
    return new Deno.Command(program, { args, stdout: "null", stderr: "null" }).outputSync().success;
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
    const [program, ...args] = withOwnMounts([{ at: directory, kilobytes: 128 }], [Deno.execPath(), "eval", script]);
    const output = await new Deno.Command(program, { args, cwd: new URL("../..", import.meta.url) }).output();
    const text = new TextDecoder().decode(output.stdout);
    if (!output.success) throw new Error(`${text}\n${new TextDecoder().decode(output.stderr)}`);
    return text;
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}
