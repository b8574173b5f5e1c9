/**
 * `mur precompile [--workdir <dir>] [--json] <ZIP>...` (spec cli 11.4).
 *
 * @module
 */
import { inspectArchive } from "../artifact/publication.ts";
import { openPackage } from "../artifact/package.ts";
import { sha256Hex } from "../artifact/sha256.ts";
import { readArchive } from "../artifact/store.ts";
import { maxDecompressedBytes } from "../artifact/zip_archive.ts";
import { MurError, reasonOf } from "../base/errors.ts";
import { VERSION } from "../base/version.ts";
import { absolutePath } from "../base/paths.ts";
import type { CliContext } from "./context.ts";
import { precompileComponent } from "./precompile_component.ts";

/** Flags of `mur precompile`. */
export interface PrecompileFlags {
  /** The work folder of the launch this is for: nothing is stored in a home inside it. */
  readonly workdir?: string;
  readonly json?: boolean;
}

interface FileOutcome {
  readonly path: string;
  readonly name: string | null;
  readonly version: string | null;
  readonly outcome: "compiled" | "already stored" | "not wasm" | "failed";
}

const COMPILED_ROLES = ["tool", "driver", "hook"];

/** Translates the components of archives; resolves and installs nothing. */
export async function precompile(
  context: CliContext,
  flags: PrecompileFlags,
  ...archives: readonly string[]
): Promise<number> {
  const maxBytes = maxDecompressedBytes(context.env);
  const { workdir } = flags;
  const refusal = workdir === undefined ? null : await homeInside(context, absolutePath(context.cwd, workdir));
  const outcomes: FileOutcome[] = [];
  for (const path of archives) {
    const progress = context.progress(`compiling ${path}`);
    try {
      outcomes.push(await precompileArchive(context, path, maxBytes, refusal));
    } finally {
      progress.done();
    }
  }
  if (flags.json) {
    const lines = outcomes.map(({ path, name, version, outcome }) => ({
      path,
      name,
      version,
      outcome: outcome.replaceAll(" ", "_"),
    }));
    context.stdout.line(JSON.stringify({ mur_version: VERSION, decompression_ceiling: maxBytes, artifacts: lines }));
  } else {
    for (const { path, name, version, outcome } of outcomes) {
      context.stdout.line(`${outcome.padEnd("already stored".length)}  ${name === null ? path : `${name}@${version}`}`);
    }
  }
  return outcomes.some(({ outcome }) => outcome === "failed") ? 1 : 0;
}

async function precompileArchive(
  context: CliContext,
  path: string,
  maxBytes: number,
  refusal: MurError | null,
): Promise<FileOutcome> {
  let name: string | null = null;
  let version: string | null = null;
  try {
    const bytes = await readArchive(absolutePath(context.cwd, path));
    if (bytes === null) throw new MurError("E-IO-001", `no artifact archive at ${path}`);
    const { manifest } = await openPackage(bytes, path, maxBytes);
    ({ name, version } = manifest);
    if (manifest.packaging !== "wasm" || !COMPILED_ROLES.includes(manifest.role) || manifest.runtime === "capsule") {
      return { path, name, version, outcome: "not wasm" };
    }
    const { metadata, payload } = await inspectArchive(bytes, path, maxBytes);
    if (refusal !== null) throw refusal;
    const outcome = await precompileComponent(context, metadata, payload!, await sha256Hex(bytes));
    return { path, name, version, outcome };
  } catch (error) {
    if (!(error instanceof MurError)) throw error;
    context.stderr.line(`warning: ${path}: ${reasonOf(error)}`);
    return { path, name, version, outcome: "failed" };
  }
}

/** Why nothing is stored: the home lies where an agent writes. */
async function homeInside(context: CliContext, workdir: string): Promise<MurError | null> {
  const real = async (path: string) => await Deno.realPath(path).catch(() => path);
  const root = context.home().root;
  const home = `${await real(root.slice(0, root.lastIndexOf("/")) || "/")}/.murmur`;
  const folder = (await real(workdir)).replace(/\/+$/, "");
  if (home !== folder && !home.startsWith(`${folder}/`)) return null;
  return new MurError("E-IO-003", `${root} lies inside the work folder ${workdir}, so nothing is stored in it`);
}
