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
import { SYSTEM_DIRECTORIES } from "./system_directories.ts";

/** Most bytes of a first line that are read. */
const MAX_FIRST_LINE = 512;

/**
 * Bare name of the interpreter a script's first line names; `null` when the file is no script.
 *
 * `#!/usr/bin/env -S NAME=value python3 -u` means `python3`; `env` with nothing behind it means `env`.
 */
export function scriptInterpreter(head: Uint8Array): string | null {
  if (head[0] !== 0x23 || head[1] !== 0x21) return null;
  const line = new TextDecoder().decode(head.subarray(2, MAX_FIRST_LINE)).split(/[\r\n]/, 1)[0]!;
  const [first = "", ...rest] = line.trim().split(/[ \t]+/);
  const name = first.slice(first.lastIndexOf("/") + 1);
  if (name !== "env") return name;
  const named = rest.find((token) => !token.startsWith("-") && !token.includes("="));
  return named === undefined ? "env" : named.slice(named.lastIndexOf("/") + 1);
}

function firstBytes(path: string): Uint8Array {
  const head = new Uint8Array(MAX_FIRST_LINE);
  try {
    using file = Deno.openSync(path);
    return head.subarray(0, file.readSync(head) ?? 0);
  } catch {
    return head.subarray(0, 0);
  }
}

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
    const interpreter = scriptInterpreter(firstBytes(canonical));
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
