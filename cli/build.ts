/**
 * `mur build [source] [-o <path>]`: packs an artifact (spec cli 10.1, manifest 5.5).
 *
 * @module
 */
import { bareNameProblem, versionProblem } from "../artifact/artifact_name.ts";
import {
  type ArtifactManifest,
  buildDeclaration,
  parseArtifactManifest,
} from "../artifact/manifest/artifact_manifest.ts";
import {
  ARCHIVE_SUFFIX,
  findDeclaredFile,
  planPackage,
  readPlannedFiles,
  selectComponent,
} from "../artifact/package.ts";
import { writeZip, type ZipInput } from "../artifact/zip_writer.ts";
import { writeAtomically } from "../base/atomic_file.ts";
import { ioError, MurError } from "../base/errors.ts";
import { absolutePath } from "../base/paths.ts";
import type { ComponentRole, ComponentSource } from "../toolchain/component_build.ts";
import type { CliContext } from "./context.ts";
import { UsageError } from "./usage_error.ts";

/** Flags of `mur build`. With `skill`, see `build_skill.ts`. */
export interface BuildFlags {
  /** File to write, or an existing directory to write the default name into. */
  readonly output?: string;
  /** Value of `--skill`, empty without one. */
  readonly skill?: string;
  readonly version?: string;
  readonly summary?: string;
}

/** Makes a component of a source file; replaced in tests. */
export type BuildComponent = (source: ComponentSource) => Promise<{ readonly wasm: Uint8Array }>;

async function buildComponentLazily(source: ComponentSource): Promise<{ readonly wasm: Uint8Array }> {
  const { buildComponent } = await import("../toolchain/component_build.ts");
  return await buildComponent(source);
}

/** Packs the artifact of a directory and prints where it is. */
export async function build(
  context: CliContext,
  flags: BuildFlags,
  source = ".",
  buildComponent: BuildComponent = buildComponentLazily,
): Promise<number> {
  if (flags.skill !== undefined) {
    const { buildSkill } = await import("./build_skill.ts");
    return await buildSkill(context, { ...flags, skill: flags.skill }, source);
  }
  for (const flag of ["version", "summary"] as const) {
    if (flags[flag] !== undefined) throw new UsageError(`--${flag} needs --skill`);
  }
  const directory = absolutePath(context.cwd, source);
  const { bytes, manifest } = await readManifest(directory, source);
  if (manifest.hasInferenceAuth) {
    const place = manifest.place("inference_auth");
    throw new MurError("E-BLD-004", "murmur.yaml: 'inference_auth' is the retired name of 'upstream_auth'", {
      hint: "rename the block to upstream_auth",
      ...(place === undefined ? {} : { place }),
    });
  }
  const { secretWarnings } = await import("../artifact/secret_scan.ts");
  for (const warning of secretWarnings(manifest.text, manifest.file)) context.warn(warning);

  requireBuildableName(manifest);
  const output = await outputPath(context.cwd, directory, manifest, flags.output);
  const plan = await planPackage(directory, manifest, output);
  for (const warning of plan.warnings) context.warn(warning);
  const component = await makeComponent(context, directory, manifest, buildComponent);

  requireOutputName(output, manifest);
  const names = [...plan.files.map((file) => file.name), ...component.map((file) => file.name)];
  if (manifest.packaging === "wasm") selectComponent(names);
  if (manifest.packaging === "native" && !names.includes(`bin/${manifest.name}`)) {
    context.stderr.line(`warning: a native artifact runs 'bin/${manifest.name}', which requires_files does not list`);
  }
  const files: ZipInput[] = [{ name: "murmur.yaml", bytes }, ...readPlannedFiles(directory, plan), ...component];
  const archive = await writeZip(files);
  writeAtomically(output, archive);
  context.stdout.line(`Built artifact: ${shownPath(context.cwd, output)}`);
  return 0;
}

async function readManifest(
  directory: string,
  source: string,
): Promise<{ bytes: Uint8Array<ArrayBuffer>; manifest: ArtifactManifest }> {
  const path = `${directory}/murmur.yaml`;
  const shown = source === "." ? "murmur.yaml" : `${source.replace(/\/+$/, "")}/murmur.yaml`;
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = await Deno.readFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      throw new MurError("E-IO-001", `murmur.yaml not found at ${path}`, {
        hint: "name the artifact's folder: mur build <folder>",
      });
    }
    if (error instanceof Deno.errors.PermissionDenied) throw ioError(`read ${path}`, error);
    const reason = error instanceof Error ? error.message : String(error);
    throw new MurError("E-IO-003", `failed to read murmur.yaml at ${path}: ${reason}`, { cause: error });
  }
  return { bytes, manifest: parseArtifactManifest(bytes, shown) };
}

/** `E-BLD-001`. */
export function requireBuildableName(manifest: ArtifactManifest): void {
  const problem = bareNameProblem(manifest.name);
  if (problem === null) return;
  const place = manifest.place("name");
  throw new MurError("E-BLD-001", `invalid artifact name '${manifest.name}': ${problem}`, {
    hint: "names hold 1 to 100 lowercase letters, digits and '-'",
    ...(place === undefined ? {} : { place }),
  });
}

async function outputPath(
  cwd: string,
  directory: string,
  manifest: ArtifactManifest,
  output: string | undefined,
): Promise<string> {
  const name = `${manifest.name}-${manifest.version}${ARCHIVE_SUFFIX}`;
  if (output === undefined) return `${directory}/${name}`;
  const path = absolutePath(cwd, output);
  try {
    if ((await Deno.stat(path)).isDirectory) return `${path}/${name}`;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw ioError(`write ${output}`, error);
  }
  return path;
}

function requireOutputName(output: string, manifest: ArtifactManifest): void {
  const problem = versionProblem(manifest.version);
  if (problem !== null) {
    const place = manifest.place("version");
    throw new MurError("E-IO-003", `'${manifest.version}' cannot be part of a file name: ${problem}`, {
      ...(place === undefined ? {} : { place }),
    });
  }
  if (output.endsWith(ARCHIVE_SUFFIX)) return;
  throw new MurError("E-IO-003", `the output ${output} does not end in ${ARCHIVE_SUFFIX}`, {
    hint: `name a file ending in ${ARCHIVE_SUFFIX}, or an existing folder`,
  });
}

/** The component of a `build:` block as the entry to pack, nothing without the block (spec manifest 5.6). */
async function makeComponent(
  context: CliContext,
  directory: string,
  manifest: ArtifactManifest,
  buildComponent: BuildComponent,
): Promise<ZipInput[]> {
  const declaration = buildDeclaration(manifest);
  if (declaration === null) return [];
  const place = manifest.place("build.entry");
  const entry = await findDeclaredFile(directory, declaration.entry, "build.entry", place);
  if (entry === null) {
    throw new MurError("E-IO-003", `missing build entry '${declaration.entry}' in ${directory}`, {
      ...(place === undefined ? {} : { place }),
    });
  }
  const role = componentRole(manifest);
  const progress = context.progress(`building ${manifest.name}`);
  try {
    const { name, version } = manifest;
    const { wasm } = await buildComponent({ entry: `${directory}/${entry}`, role, name, version });
    return [{ name: `${name}.wasm`, bytes: wasm }];
  } finally {
    progress.done();
  }
}

function componentRole(manifest: ArtifactManifest): ComponentRole {
  if (manifest.runtime === "capsule") return "capsule";
  const { role } = manifest;
  // `buildDeclaration` has refused a skill.
  if (role === "skill") throw new Error("a skill with a build block");
  return role;
}

/** A path below the current directory without that prefix. */
export function shownPath(cwd: string, path: string): string {
  return path.startsWith(`${cwd}/`) ? path.slice(cwd.length + 1) : path;
}
