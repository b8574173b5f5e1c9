/**
 * Artifact archives: what goes into one and which entry of one is its payload (spec cli 6.2 to 6.4, manifest 5.4, 5.5).
 *
 * @module
 */
import { ioError, MurError, type MurErrorOptions, type SourcePlace, type Warning } from "../base/errors.ts";
import { type ArtifactManifest, parseArtifactManifest } from "./manifest/artifact_manifest.ts";
import { RootedDir } from "../base/rooted_dir.ts";
import { isRootedError } from "../base/rooted_error.ts";
import {
  isSafeEntryName,
  MAX_ARCHIVE_BYTES,
  openZip,
  readZipEntry,
  type ZipArchive,
  type ZipEntry,
} from "./zip_archive.ts";
import type { ZipInput } from "./zip_writer.ts";

/** End of every artifact archive's name. */
export const ARCHIVE_SUFFIX = ".mur.zip";

/** Largest packed manifest that is read, in bytes; the parser holds many times as much. */
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024;

const MANIFEST_NAME = "murmur.yaml";

/** A file to pack: its name in the archive and its path below the artifact's directory. */
export interface PackageFile {
  readonly name: string;
  readonly path: string;
}

/** What `mur build` packs, in entry order, and what it says about it. */
export interface PackagePlan {
  readonly files: readonly PackageFile[];
  readonly warnings: readonly Warning[];
}

/** How a declared path is named in the archive: `\` is `/`, and components that go nowhere are dropped. */
export function archiveName(declared: string): string {
  return declared.replaceAll("\\", "/").split("/").filter((part) => part !== "" && part !== ".").join("/");
}

/** Why a declared path may not be packed, decided from its text, or `null`. */
export function declaredPathProblem(declared: string): string | null {
  if (/^[/\\]/.test(declared) || /^[A-Za-z]:/.test(declared)) return "it is absolute";
  if (declared.split(/[/\\]/).includes("..")) return "it has a '..' component";
  return isSafeEntryName(archiveName(declared)) ? null : "it is no name a file of an archive can have";
}

function at(place: SourcePlace | undefined, hint?: string): MurErrorOptions {
  return { ...(place === undefined ? {} : { place }), ...(hint === undefined ? {} : { hint }) };
}

/**
 * Judges one declared path of a manifest and finds its file: relative, without `..`, no symbolic link on the way, a
 * regular file.
 *
 * @param field Where it is declared, e.g. `requires_files[0]`.
 * @returns The path of the file below the directory; `null` when there is none.
 * @throws {MurError} `E-BLD-002` for an unsafe path, `E-IO-003` for something that is no file.
 */
export async function findDeclaredFile(
  directory: string,
  declared: string,
  field: string,
  place: SourcePlace | undefined,
): Promise<string | null> {
  const problem = declaredPathProblem(declared);
  if (problem !== null) {
    throw new MurError(
      "E-BLD-002",
      `unsafe path '${declared}' in ${field}: ${problem}`,
      at(place, "declare a relative path below the artifact's folder"),
    );
  }
  // On systems where `\` is part of a name, the file of that very name is meant; its archive name is still judged.
  const parts = declared.split("/").filter((part) => part !== "" && part !== ".");
  let path = directory;
  for (const [index, part] of parts.entries()) {
    path = `${path}/${part}`;
    let info: Deno.FileInfo;
    try {
      info = await Deno.lstat(path);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return null;
      throw ioError(`read ${path}`, error);
    }
    if (info.isSymlink) {
      throw new MurError(
        "E-BLD-002",
        `unsafe path '${declared}' in ${field}: '${parts.slice(0, index + 1).join("/")}' is a symbolic link`,
        at(place, "declare the real file"),
      );
    }
    if (index === parts.length - 1 && !info.isFile) {
      throw new MurError("E-IO-003", `'${declared}' in ${field} is not a regular file`, at(place));
    }
  }
  return parts.join("/");
}

/**
 * Decides what is packed: `murmur.yaml`, then the declared files in order, each real file once, the output never
 * (spec manifest 5.5, checks 4 to 7).
 *
 * @param outputPath Where the archive will be written.
 * @throws {MurError} `E-BLD-002`, `E-IO-003`.
 */
export async function planPackage(
  directory: string,
  manifest: ArtifactManifest,
  outputPath: string,
): Promise<PackagePlan> {
  const declarations = manifest.requiresFiles.map((declared, index) => ({
    declared,
    field: `requires_files[${index}]`,
    place: manifest.place(`requires_files[${index}]`),
  }));
  for (const { declared, field, place } of declarations) {
    const problem = declaredPathProblem(declared);
    if (problem !== null) {
      throw new MurError(
        "E-BLD-002",
        `unsafe path '${declared}' in ${field}: ${problem}`,
        at(place, "declare a relative path below the artifact's folder"),
      );
    }
  }
  const found: { declared: string; field: string; path: string; place: SourcePlace | undefined }[] = [];
  for (const { declared, field, place } of declarations) {
    const path = await findDeclaredFile(directory, declared, field, place);
    if (path === null) {
      throw new MurError("E-IO-003", `missing required file '${declared}' in ${directory}`, at(place));
    }
    found.push({ declared, field, path, place });
  }

  const files: PackageFile[] = [{ name: MANIFEST_NAME, path: MANIFEST_NAME }];
  const warnings: Warning[] = [];
  const packed = new Set([await realPath(`${directory}/${MANIFEST_NAME}`)]);
  const outputReal = await realPath(outputPath);
  for (const { declared, field, path, place } of found) {
    const name = archiveName(declared);
    const real = await realPath(`${directory}/${path}`);
    if (real === outputReal) continue;
    if (packed.has(real)) {
      if (name === MANIFEST_NAME || name === "capsule.wasm") warnings.push(filledSlot(name, field));
      continue;
    }
    if (files.some((file) => file.name === name)) {
      throw new MurError(
        "E-BLD-002",
        `two files would be packed as '${name}': '${declared}' in ${field} is not the first`,
        at(place, "rename one of them"),
      );
    }
    packed.add(real);
    files.push({ name, path });
  }
  const names = files.map((file) => file.name);
  warnings.push(...payloadWarnings(manifest.packaging, names));
  return { files, warnings };
}

/**
 * Reads the declared files of a plan, `murmur.yaml` aside: from the held directory and through no symbolic link, so that a
 * file exchanged since it was judged is refused rather than followed.
 *
 * @throws {MurError} `E-BLD-002`, `E-IO-003`.
 */
export function readPlannedFiles(directory: string, plan: PackagePlan): readonly ZipInput[] {
  using root = RootedDir.open(directory, { symlinks: "refuse" });
  return plan.files.slice(1).map(({ name, path }) => {
    try {
      using file = root.openFile(path);
      return { name, bytes: file.readAll(MAX_ARCHIVE_BYTES) };
    } catch (error) {
      if (isRootedError(error, "loop")) {
        throw new MurError("E-BLD-002", `'${path}' is a symbolic link`, { hint: "declare the real file" });
      }
      throw ioError(`read ${directory}/${path}`, error);
    }
  });
}

async function realPath(path: string): Promise<string> {
  try {
    return await Deno.realPath(path);
  } catch {
    // The output usually does not exist yet.
    return path;
  }
}

function filledSlot(name: string, field: string): Warning {
  return {
    code: "W-BLD-001",
    source: null,
    message: `${field} names '${name}', which is packed already`,
    details: ["remove the declaration"],
  };
}

/** Findings about the entries of a package that do not stop a build (spec diagnostics 3). */
export function payloadWarnings(packaging: ArtifactManifest["packaging"], names: readonly string[]): Warning[] {
  const warnings: Warning[] = [];
  const wasm = rootWasm(names);
  if (wasm.includes("capsule.wasm") && wasm.length > 1) {
    const others = wasm.filter((name) => name !== "capsule.wasm").map((name) => `'${name}'`).join(", ");
    warnings.push({
      code: "W-BLD-002",
      source: null,
      message: `${others} beside 'capsule.wasm' never runs`,
      details: ["keep one component at the root of the archive"],
    });
  }
  const sources = names.filter((name) => {
    const parts = name.split("/");
    const last = parts.at(-1)!;
    return last === "Cargo.toml" || last === "Cargo.lock" || last.endsWith(".rs") ||
      parts.slice(0, -1).includes("target");
  });
  if (packaging !== "static" && sources.length > 0) {
    warnings.push({
      code: "W-BLD-003",
      source: null,
      message: `a compiled artifact packs build inputs: ${sources.map((name) => `'${name}'`).join(", ")}`,
      details: ["remove them from requires_files"],
    });
  }
  return warnings;
}

/** The root entries that could be a component: one path component, ending `.wasm`. */
function rootWasm(names: Iterable<string>): string[] {
  return [...names].filter((name) => !name.includes("/") && name.endsWith(".wasm"));
}

/**
 * The component among an archive's entries: root `capsule.wasm`, else the only root `*.wasm`.
 *
 * @throws {MurError} `E-BLD-003` when there is none or several.
 */
export function selectComponent(names: Iterable<string>): string {
  const candidates = rootWasm(names);
  if (candidates.includes("capsule.wasm")) return "capsule.wasm";
  if (candidates.length === 1) return candidates[0]!;
  if (candidates.length === 0) {
    throw new MurError("E-BLD-003", "missing root .wasm file (expected capsule.wasm or one root *.wasm)", {
      hint: "list the component in requires_files, name a source in build.entry, or say execution: static",
    });
  }
  throw new MurError("E-BLD-003", `multiple root .wasm files found: ${candidates.toSorted().join(", ")}`, {
    hint: "declare exactly one component, or name the one that runs capsule.wasm",
  });
}

/** An opened archive and its manifest. */
export interface ArtifactPackage {
  readonly archive: ZipArchive;
  readonly manifest: ArtifactManifest;
  /** Most bytes one entry may inflate to. */
  readonly maxBytes: number;
}

/**
 * Opens an archive and reads its manifest. Verify the hash of the bytes first where one is known.
 *
 * @param label What messages call the archive, e.g. its path.
 * @throws {MurError} `E-IO-003` for an unusable archive, `E-MAN-*` for its manifest.
 */
export async function openPackage(
  bytes: Uint8Array<ArrayBuffer>,
  label: string,
  maxBytes: number,
): Promise<ArtifactPackage> {
  const archive = openZip(bytes, label);
  const entry = archive.entries.get(MANIFEST_NAME);
  if (entry === undefined) {
    throw new MurError("E-IO-003", `${label} is not a usable artifact archive: it has no ${MANIFEST_NAME}`);
  }
  const bound = Math.min(maxBytes, MAX_MANIFEST_BYTES);
  const text = await readZipEntry(archive, entry, bound, bound === maxBytes);
  return { archive, manifest: parseArtifactManifest(text, `${label}/${MANIFEST_NAME}`), maxBytes };
}

/**
 * Reads the payload: the component, the native binary, or a skill's text. `null` for another static artifact, which is
 * its manifest alone.
 *
 * @throws {MurError} `E-BLD-003` for a component that cannot be told, `E-IO-003` for one that is missing or unreadable.
 */
export async function readPayload(artifact: ArtifactPackage): Promise<Uint8Array<ArrayBuffer> | null> {
  const entry = payloadEntry(artifact);
  return entry === null ? null : await readZipEntry(artifact.archive, entry, artifact.maxBytes);
}

function payloadEntry({ archive, manifest }: ArtifactPackage): ZipEntry | null {
  const { entries, label } = archive;
  const required = (name: string): ZipEntry => {
    const entry = entries.get(name);
    if (entry === undefined) throw new MurError("E-IO-003", `${label} has no '${name}', which is its payload`);
    return entry;
  };
  if (manifest.packaging === "native") return required(`bin/${manifest.name}`);
  if (manifest.packaging === "static") return manifest.role === "skill" ? required("skill.md") : null;
  return required(selectComponent(entries.keys()));
}
