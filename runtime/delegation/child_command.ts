/**
 * The command line of a delegated child (spec roost 10.2).
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import { absolutePath } from "../../base/paths.ts";
import { type OwnProgram, ownProgram } from "../../base/program.ts";
import { findExecutable } from "../../sandbox/executable_path.ts";

/** Variable that names the `mur` children are started from. */
export const BINARY_VARIABLE = "MURMUR_MUR_BINARY";

/** Variable that says where a program in one file keeps what it unpacked. The launcher of such a file sets it. */
const CACHE_VARIABLE = "MURMUR_CACHE_DIR";

/** Where such a file keeps it by itself, below the home: as `launcher/cache.c` has it. */
const CACHES = Deno.build.os === "darwin" ? "Library/Caches" : ".cache";

/** Which capsule a child runs, and where. */
export interface ChildCommand {
  /** Full name. */
  readonly capsule: string;
  readonly version: string;
  /** Hash of the judged artifact: what runs is what was judged. */
  readonly sha256: string;
  readonly workdir: string;
  /** Its door asks for a token, which its launcher has to be told. */
  readonly authenticated: boolean;
}

/** Arguments of `mur`. No token is among them: other processes see a command line. */
export function childArguments({ capsule, version, sha256, workdir, authenticated }: ChildCommand): string[] {
  return [
    "run",
    "--capsule",
    capsule,
    "--capsule-version",
    version,
    "--capsule-sha256",
    sha256,
    "--workdir",
    workdir,
    "--json",
    "--no-env-file",
    "--spawn-grant-stdin",
    ...(authenticated ? ["--readiness-tokens"] : []),
  ];
}

/**
 * The program a child runs: what `MURMUR_MUR_BINARY` names, else this very one.
 *
 * @throws {MurError} `E-IO-001` when there is none.
 */
export function childProgram(env: { get(name: string): string | undefined }, cwd: string): OwnProgram {
  const named = env.get(BINARY_VARIABLE)?.trim() ?? "";
  if (named === "") {
    const own = ownProgram();
    if (own !== null) return own;
    throw new MurError("E-IO-001", "this program cannot tell where its mur is", {
      hint: `set ${BINARY_VARIABLE} to the path of mur`,
    });
  }
  const command = named.includes("/")
    ? absolutePath(cwd, named)
    : findExecutable(named, env.get("PATH") ?? "")?.invoked ?? null;
  if (command !== null) {
    // A program in one file that is not told would unpack itself once more wherever it thinks fit. Where it would look by
    // itself it need not be told.
    const cache = env.get(CACHE_VARIABLE);
    const told = cache && cache !== `${env.get("HOME")}/${CACHES}/murmur`;
    return { command, args: [], env: told ? { [CACHE_VARIABLE]: cache } : {} };
  }
  throw new MurError("E-IO-001", `${BINARY_VARIABLE} names '${named}', which is not found on PATH`, {
    hint: "set it to the path of mur",
  });
}
