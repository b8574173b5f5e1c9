/**
 * Takes a snapshot onto a file system of 4 MB and tells what came of it. Run with root in a user and a mount namespace of its
 * own: `full_disk.ts SOURCE`.
 *
 * @module
 */
import { MurError } from "../../../base/errors.ts";
import { takeSnapshot } from "../workdir_snapshot.ts";

const source = Deno.args[0]!;
const disk = Deno.makeTempDirSync();
const mounted = new Deno.Command("mount", { args: ["-t", "tmpfs", "-o", "size=4m", "none", disk] }).outputSync();
if (!mounted.success) throw new Error("no file system can be mounted");
const target = `${disk}/worker-1`;
Deno.mkdirSync(target);
try {
  await takeSnapshot({
    child: "worker",
    source,
    target,
    runtimeDirectories: [],
    maxBytes: 1 << 30,
    signal: new AbortController().signal,
  });
  console.log("copied");
} catch (error) {
  const left = [...Deno.readDirSync(disk)].length;
  if (!(error instanceof MurError)) throw error;
  console.log(
    `${left === 0 ? "no space is left on" : "something is left on"} the disk: ${error.code} ${error.message}`,
  );
}
new Deno.Command("umount", { args: [disk] }).outputSync();
Deno.removeSync(disk);
