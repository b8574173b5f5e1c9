/**
 * Programs that see a file system of their own making: mounts in a namespace that vanishes with the process. Works as root
 * and for users where the host gives them user namespaces.
 *
 * @module
 */

/** A small disk at a directory, or a file in the place of another one. */
export type OwnMount =
  /** What the disk holds at the end is copied into the directory `keep`. */
  | { readonly at: string; readonly kilobytes: number; readonly keep?: string }
  | { readonly at: string; readonly file: string };

const SCRIPT = `
keep=
while [ "$1" != -- ]; do
  case $1 in
    disk)
      mount -t tmpfs -o "size=$2k" tmpfs "$3" || exit 99
      if [ -n "$4" ]; then keep=$4 from=$3; fi ;;
    file) mount --bind "$2" "$3" || exit 99 ;;
  esac
  shift 4
done
shift
if [ -z "$keep" ]; then exec "$@"; fi
"$@"
status=$?
cp -a "$from/." "$keep" || exit 99
exit $status`;

/** The command line that runs another one among mounts of its own. At most one disk is kept. */
export function withOwnMounts(mounts: readonly OwnMount[], command: readonly string[]): [string, ...string[]] {
  const wanted = mounts.flatMap((mount) =>
    "file" in mount ? ["file", mount.file, mount.at, ""] : ["disk", `${mount.kilobytes}`, mount.at, mount.keep ?? ""]
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
