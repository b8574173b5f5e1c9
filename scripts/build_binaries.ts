/**
 * Builds the programs, each in one file.
 *
 * Usage: `deno task build [--form portable|compile|auto] [--target <os>-<arch>]… [--program <name>]… [--output <dir>]`
 *
 * Default: every program for this machine, into `dist/build/`, in the compile form where its base binary is at hand
 * (`DENORT_BIN`) and in the portable form everywhere else. Two builds of one commit on one machine are the same bytes.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { sha256Hex } from "../artifact/sha256.ts";
import { MurError } from "../base/errors.ts";
import { VERSION } from "../base/version.ts";
import { buildConfine, confineSources } from "../sandbox/confine_build.ts";
import { checkoutHelper } from "../sandbox/confine_helper.ts";
import {
  type BuildTarget,
  compilersFor,
  compressionPackage,
  DENO_VERSION,
  hostTarget,
  TARGETS,
} from "./build_target.ts";
import { compileProgram, hasCompileBase, ISOLATED_START } from "./compile_form.ts";
import { buildLauncher } from "./launcher_build.ts";
import { npmPackage } from "./npm_package.ts";
import { filesOf, inCache, portableFile, type StoredPart, storedPart } from "./portable_form.ts";
import { type ProgramEntry, type ProgramFolder, type ProgramInputs, PROGRAMS } from "./program_files.ts";
import { hostNativePackages } from "./toolchain_files.ts";

const ROOT = decodeURIComponent(new URL("..", import.meta.url).pathname).replace(/\/$/, "");
const DIST = `${ROOT}/dist`;

/** How a program is put into one file. */
export type Form = "portable" | "compile";

/** What is to be built. */
export interface BuildOptions {
  readonly form: Form | "auto";
  readonly targets: readonly BuildTarget[];
  readonly programs: readonly ProgramEntry[];
  readonly output: string;
  /** `false` stores everything as it is, as on a machine without the compression library. */
  readonly compress?: boolean;
}

/** A file that was built. */
export interface BuiltProgram {
  /** `<program>-<version>-<target>`. */
  readonly name: string;
  readonly path: string;
  readonly program: string;
  readonly target: BuildTarget;
  readonly form: Form;
  /** Whether its contents are compressed inside. */
  readonly compressed: boolean;
}

/** Name of a program's file. */
export function binaryName(program: string, target: BuildTarget): string {
  return `${program}-${VERSION}-${target.name}`;
}

/** Builds, one after the other. @throws {Error} For the first that cannot be built here. */
export async function buildBinaries(
  options: BuildOptions,
  onBuilt: (built: BuiltProgram) => void | Promise<void> = () => {},
): Promise<BuiltProgram[]> {
  if (Deno.version.deno !== DENO_VERSION) {
    throw new Error(`this is Deno ${Deno.version.deno}; programs are built with and carry ${DENO_VERSION}`);
  }
  const form: Form = options.form === "auto" ? hasCompileBase() ? "compile" : "portable" : options.form;
  await Deno.mkdir(options.output, { recursive: true });
  const built: BuiltProgram[] = [];
  for (const target of options.targets) {
    const inputs = await inputsOf(target);
    for (const program of options.programs) {
      const folder = await program.prepare(`${DIST}/programs/${target.name}/${program.name}`, inputs);
      const name = binaryName(program.name, target);
      const path = `${options.output}/${name}`;
      const compressed = form === "compile"
        ? await compileProgram(folder, target, path).then(() => false)
        : await writePortable(program.name, folder, target, path, options.compress ?? true);
      const one: BuiltProgram = { name, path, program: program.name, target, form, compressed };
      built.push(one);
      await onBuilt(one);
    }
  }
  return built;
}

/** What a program for a machine needs besides this checkout. */
async function inputsOf(target: BuildTarget): Promise<ProgramInputs> {
  if (target.name === hostTarget().name) {
    return { helper: target.os === "linux" ? await checkoutHelper() : null, native: await hostNativePackages() };
  }
  const esbuild = await npmPackage(target.esbuildPackage, await pinned("esbuild"));
  const addon = await npmPackage(target.addonPackage, await pinned("componentize-qjs"));
  return {
    helper: target.os === "linux" ? await crossHelper(target) : null,
    native: { esbuild: `${esbuild}/bin/esbuild`, componentizer: `${addon}/${target.addonFile}` },
  };
}

async function crossHelper(target: BuildTarget): Promise<string> {
  const helper = `${DIST}/mur-confine-${target.name}`;
  await buildConfine(confineSources(`${ROOT}/sandbox/confine`), helper, [], compilersFor(target));
  return helper;
}

async function pinned(name: string): Promise<string> {
  const { imports } = JSON.parse(await Deno.readTextFile(`${ROOT}/deno.json`)) as { imports: Record<string, string> };
  return imports[name]!.slice(imports[name]!.lastIndexOf("@") + 1);
}

/** Writes a program's file; tells whether it is compressed inside. */
async function writePortable(
  name: string,
  { folder, entry, flags }: ProgramFolder,
  target: BuildTarget,
  path: string,
  compress: boolean,
): Promise<boolean> {
  const launcher = await buildLauncher(target, `${DIST}/launcher-${target.name}`, compress);
  const deno = await denoPart(target, launcher.decompresses);
  const program = await storedPart({ name, files: await filesOf(folder) }, launcher.decompresses);
  const pieces = await portableFile(launcher.bytes, [deno, program], { part: deno, path: "deno" }, [
    // Under this name it is seen in a list of processes.
    name,
    "run",
    ...ISOLATED_START,
    ...flags,
    inCache(program, entry),
  ]);
  const staging = `${path}.new`;
  await Deno.remove(staging).catch(() => {});
  using file = await Deno.open(staging, { createNew: true, write: true, mode: 0o755 });
  for (const piece of pieces) {
    for (let rest = piece; rest.length > 0;) rest = rest.subarray(await file.write(rest));
  }
  await Deno.chmod(staging, 0o755);
  await Deno.rename(staging, path);
  return launcher.decompresses;
}

/** The pinned Deno of a machine, stored. Compressing it takes seconds, so it is kept. */
async function denoPart(target: BuildTarget, compress: boolean): Promise<StoredPart> {
  const path = target.name === hostTarget().name
    ? Deno.execPath()
    : `${await npmPackage(target.denoPackage, DENO_VERSION)}/deno`;
  const bytes = await Deno.readFile(path);
  const kept = `${DIST}/deno-${await sha256Hex(bytes)}.zst`;
  const part = { name: "deno", files: [{ path: "deno", bytes, executable: true }] };
  const stored = await Deno.readFile(kept).catch(() => null);
  if (compress && stored !== null) return { ...await storedPart(part, false), bytes: stored, compressed: true };
  const fresh = await storedPart(part, compress);
  if (compress) {
    await Deno.writeFile(`${kept}.new`, fresh.bytes);
    await Deno.rename(`${kept}.new`, kept);
  }
  return fresh;
}

/** The machines that words name; this one when there is none. @throws {Error} For another word. */
export function chosenTargets(names: readonly string[]): readonly BuildTarget[] {
  if (names.length === 0) return [hostTarget()];
  return names.map((name) => {
    const found = TARGETS.find((each) => each.name === name);
    if (found === undefined) {
      throw new Error(`'${name}' is no target; there are ${TARGETS.map((each) => each.name).join(", ")}`);
    }
    return found;
  });
}

/** The form a word names. @throws {Error} For another word. */
export function chosenForm(word: string): Form | "auto" {
  if (word === "auto" || word === "portable" || word === "compile") return word;
  throw new Error(`'${word}' is no form; there are portable, compile and auto`);
}

function chosenPrograms(names: readonly string[]): readonly ProgramEntry[] {
  for (const name of names) {
    if (!PROGRAMS.some((each) => each.name === name)) throw new Error(`there is no program '${name}'`);
  }
  return names.length === 0 ? PROGRAMS : PROGRAMS.filter(({ name }) => names.includes(name));
}

/** One line about a file. */
export async function builtLine({ name, path, form, compressed, target }: BuiltProgram): Promise<string> {
  const { size } = await Deno.stat(path);
  const how = target.os === "linux" ? ` (Debian's ${compressionPackage(target)} is what it takes)` : "";
  const stored = `, not compressed inside${how}`;
  const inside = form === "compile" ? "" : compressed ? ", compressed inside" : stored;
  return `${name}  ${form} form, ${(size / 1e6).toFixed(1)} MB${inside}  ${path}`;
}

/** Why nothing was built, and what to do when that is known. */
export function buildFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error instanceof MurError && error.hint !== undefined
    ? `${error.message}\nhint: ${error.hint}`
    : error.message;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      form: { type: "string", default: "auto" },
      target: { type: "string", multiple: true, default: [] },
      program: { type: "string", multiple: true, default: [] },
      output: { type: "string", default: `${DIST}/build` },
    },
  });
  await buildBinaries({
    form: chosenForm(values.form),
    targets: chosenTargets(values.target),
    programs: chosenPrograms(values.program),
    output: values.output,
  }, async (built) => console.log(await builtLine(built)));
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error(buildFailure(error));
    Deno.exit(1);
  }
}
