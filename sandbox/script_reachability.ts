/**
 * Whether the scripts among the allowed commands find their interpreter's packages in a sealed root (spec containment 7.1).
 * Decided from declarations and the first line of each script; the host is not probed.
 *
 * @module
 */
import type { CapsuleManifest, ContainmentClass } from "../artifact/manifest/capsule_manifest.ts";
import { MurError } from "../base/errors.ts";
import { isAtOrBelow } from "../base/paths.ts";
import { findExecutable } from "./executable_path.ts";
import { interpreterOf } from "./script_interpreter.ts";
import { SYSTEM_DIRECTORIES } from "./system_directories.ts";

/**
 * Refuses allowed scripts under a sealed floor whose interpreter's packages nothing declared reaches.
 *
 * @param path `PATH` of the launch.
 * @throws {MurError} `E-CAP-006` naming every one.
 */
export function judgeScripts(manifest: CapsuleManifest, floor: ContainmentClass, path: string): void {
  if (floor !== "sealed") return;
  const { shellAllow, stagedRuntime, interpreterRuntime } = manifest.capabilities;
  const granted = [
    ...stagedRuntime.map(({ sourcePath }) => sourcePath),
    ...interpreterRuntime.flatMap(({ dirs }) => dirs.map((dir) => dir.path)),
  ];
  const binaries = new Set([...stagedRuntime, ...interpreterRuntime].map(({ binary }) => binary));
  const offenders: string[] = [];
  for (const entry of shellAllow) {
    const canonical = findExecutable(entry, path)?.canonical;
    if (canonical === undefined) continue;
    if ([...SYSTEM_DIRECTORIES, ...granted].some((folder) => isAtOrBelow(canonical, folder))) continue;
    const interpreter = interpreterOf(canonical)?.name ?? null;
    if (interpreter === null || binaries.has(entry) || binaries.has(interpreter)) continue;
    offenders.push(
      `capabilities.shell.allow grants '${entry}' (${canonical}, a script run by '${interpreter}'), and no grant names ` +
        "the packages it needs",
    );
  }
  if (offenders.length === 0) return;
  const place = manifest.place("capabilities.shell.allow");
  throw new MurError("E-CAP-006", offenders.join("; "), {
    hint: "allow the interpreter and call the module form (python3 -m x), or declare a grant measured with " +
      "strace -f -e trace=openat,getdents64",
    ...(place === undefined ? {} : { place }),
  });
}
