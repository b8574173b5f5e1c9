/**
 * Building the containment helper from its C files with the C compiler of the machine.
 *
 * @module
 */
import { writeAtomically } from "../base/atomic_file.ts";
import { MurError } from "../base/errors.ts";

/** musl's wrapper leaves out the kernel's headers, which lie among the other library's. */
const KERNEL_HEADERS = ["/usr/include", `/usr/include/${Deno.build.arch}-linux-gnu`]
  .flatMap((directory) => ["-idirafter", directory]);

/** Compilers in the order they are tried: musl makes the smallest static binary, dynamic linking is the last resort. */
const COMPILERS: readonly Compiler[] = [
  { command: ["musl-gcc", "-static", ...KERNEL_HEADERS] },
  { command: ["cc", "-static"] },
  { command: ["cc"] },
];

/** The helper's C files, beside the header they share. */
const PARTS = [
  "mur_confine",
  "guard",
  "init",
  "run",
  "keeper",
  "probe",
  "harden",
  "records",
  "control",
  "namespaces",
  "mounts",
  "landlock",
  "seccomp",
  "process",
];

/** Paths of every file the helper is made of, the header last; only those that end in `.c` are compiled. */
export function confineSources(directory: string): string[] {
  return [...PARTS.map((part) => `${directory}/${part}.c`), `${directory}/confine.h`];
}

/** Warnings are errors: these programs are small, and privileged or the first to run. */
export const FLAGS: readonly string[] = [
  "-O2",
  "-Wall",
  "-Wextra",
  "-Werror",
  "-s",
  "-ffunction-sections",
  "-fdata-sections",
  "-Wl,--gc-sections",
  "-fstack-protector-strong",
  "-D_FORTIFY_SOURCE=2",
];

/** Name of the helper made of some bytes: changed ones have another name, so an old helper is never taken for it. */
export async function confineBinaryName(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const hex = Array.from(digest.subarray(0, 8), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `mur-confine-${hex}-${Deno.build.arch}`;
}

/** A compiler and how it is to link, with flags in front of the sources and libraries behind them. */
export interface Compiler {
  readonly command: readonly [string, ...string[]];
  readonly libraries?: readonly string[];
  /** What to do where it is missing or fails, in place of the general advice. */
  readonly hint?: string;
}

/**
 * Compiles C files to `target`, which appears whole or not at all; several builders at once do no harm.
 *
 * @param sources Paths; headers among them are left to the compiler to find.
 * @param extra Further flags, after the helper's own.
 * @throws {MurError} `E-IO-003` with the compiler's words when there is none or it fails.
 */
export async function buildConfine(
  sources: readonly string[],
  target: string,
  extra: readonly string[] = [],
  compilers: readonly Compiler[] = COMPILERS,
): Promise<void> {
  await compileC(sources, target, ["-std=c11", ...FLAGS, ...extra], compilers, "the containment helper");
}

/**
 * Compiles C files with the first of some compilers that is there and succeeds.
 *
 * @param what Name of the program, for the error.
 * @returns The compiler.
 * @throws {MurError} `E-IO-003`, as {@linkcode buildConfine}.
 */
export async function compileC(
  sources: readonly string[],
  target: string,
  flags: readonly string[],
  compilers: readonly Compiler[],
  what: string,
): Promise<Compiler> {
  const work = await Deno.makeTempDir({ prefix: "mur-build-c-" });
  const said: string[] = [];
  try {
    for (const compiler of compilers) {
      const [program, ...linking] = compiler.command;
      const output = `${work}/program`;
      let result: Deno.CommandOutput;
      try {
        result = await new Deno.Command(program, {
          args: [
            ...linking,
            ...flags,
            "-o",
            output,
            ...sources.filter((path) => path.endsWith(".c")),
            ...compiler.libraries ?? [],
          ],
          stdin: "null",
          stdout: "piped",
          stderr: "piped",
        }).output();
      } catch (cause) {
        if (!(cause instanceof Deno.errors.NotFound)) throw cause;
        if (!said.includes(`${program}: not found`)) said.push(`${program}: not found`);
        continue;
      }
      if (!result.success) {
        said.push(`${compiler.command.join(" ")}: ${new TextDecoder().decode(result.stderr).trim()}`);
        continue;
      }
      writeAtomically(target, await Deno.readFile(output), { mode: 0o755 });
      return compiler;
    }
  } finally {
    await Deno.remove(work, { recursive: true });
  }
  throw new MurError("E-IO-003", `${what} cannot be built: ${said.join("\n")}`, {
    hint: compilers.find(({ hint }) => hint !== undefined)?.hint ??
      "install a C compiler (package gcc or clang, with the C library's headers)",
  });
}
