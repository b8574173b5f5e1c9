/**
 * Building the launcher of the portable form.
 *
 * @module
 */
import { compileC, FLAGS } from "../sandbox/confine_build.ts";
import { type BuildTarget, compilersFor } from "./build_target.ts";

const FOLDER = decodeURIComponent(new URL("../launcher", import.meta.url).pathname);

/** The launcher's C files. */
export const LAUNCHER_SOURCES: readonly string[] = ["launcher", "contents", "cache", "unpack", "sha256"]
  .map((name) => `${FOLDER}/${name}.c`);

const LAUNCHER_FLAGS = ["-std=gnu11", ...FLAGS];

/** A launcher. */
export interface Launcher {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Whether it can undo compression. */
  readonly decompresses: boolean;
}

/**
 * Builds the launcher for a machine: with the decompressor where its static library is installed for that machine, else
 * without.
 *
 * @param decompressing `false` leaves the decompressor out wherever it is.
 * @throws {MurError} `E-IO-003` when no compiler of this machine makes it.
 */
export async function buildLauncher(target: BuildTarget, output: string, decompressing = true): Promise<Launcher> {
  const zstd = compilersFor(target, ["-l:libzstd.a"]).map((compiler) => ({
    ...compiler,
    command: [...compiler.command, "-DWITH_ZSTD"] as [string, ...string[]],
  }));
  const used = await compileC(
    LAUNCHER_SOURCES,
    output,
    LAUNCHER_FLAGS,
    [...decompressing ? zstd : [], ...compilersFor(target)],
    `the launcher for ${target.name}`,
  );
  return { bytes: await Deno.readFile(output), decompresses: used.command.includes("-DWITH_ZSTD") };
}
