/**
 * Where a capsule's manifest and the files it names come from: a directory, or an installed archive
 * (spec session 2, cli 7, 12).
 *
 * @module
 */
import {
  parseCapsuleManifest,
  type ParsedCapsuleManifest,
  readCapsuleManifest,
} from "../../artifact/manifest/parse_capsule_manifest.ts";
import { bareHalf } from "../../artifact/artifact_name.ts";
import { openPackage, selectComponent } from "../../artifact/package.ts";
import { hostPlatformTag } from "../../artifact/platform.ts";
import { requireIdentity } from "../../artifact/publication.ts";
import { type ArtifactStore, globalStore, projectStore } from "../../artifact/store.ts";
import { readZipEntry } from "../../artifact/zip_archive.ts";
import { MurError } from "../../base/errors.ts";
import { absolutePath, parentDirectory } from "../../base/paths.ts";
import { projectRoot } from "../../artifact/project_root.ts";
import type { MurmurHome } from "../../base/murmur_home.ts";
import type { CapsuleSource } from "./launch_options.ts";
import { readOperatorText } from "./operator_file.ts";

const MANIFEST_NAME = "murmur.yaml";
/** See {@linkcode selectComponent}. */
const PREFERRED_COMPONENT = "capsule.wasm";

/** A capsule's manifest with access to what lies beside it. */
export interface ManifestSource {
  readonly parsed: ParsedCapsuleManifest;
  /** Directory against which relative paths and the default work folder are taken. */
  readonly directory: string;
  /** Stores artifacts are resolved from, in order. */
  readonly stores: readonly ArtifactStore[];
  /** Path of `murmur.lock`; `null`: no lock is read or written. */
  readonly lockPath: string | null;
  /**
   * Text of a file the manifest names, relative to it.
   *
   * @throws {MurError} `E-IO-001` to `E-IO-003`.
   */
  readText(path: string): Promise<string>;
  /** Absolute paths that hold a script capsule's component, or would be taken for it; none for an installed capsule. */
  readonly components: () => readonly string[];
  /**
   * The component of a script capsule.
   *
   * @throws {MurError} `E-RUN-004`.
   */
  readComponent(): Promise<Uint8Array>;
}

/** What finding a manifest needs. */
export interface SourceSearch {
  readonly cwd: string;
  readonly home: MurmurHome;
  readonly storeRoot: string | null;
  readonly maxBytes: number;
}

/**
 * Reads the manifest of a launch.
 *
 * @throws {MurError} `E-IO-001`, `E-MAN-*`, `E-CAP-018`; for an installed capsule `E-RUN-008`, `E-RUN-047`.
 */
export async function openManifestSource(source: CapsuleSource, search: SourceSearch): Promise<ManifestSource> {
  return source.kind === "manifest"
    ? await fromDirectory(absolutePath(search.cwd, source.path), source.path, search)
    : await fromArchive(source, search);
}

async function fromDirectory(path: string, shown: string, search: SourceSearch): Promise<ManifestSource> {
  const directory = parentDirectory(path);
  const parsed = await readCapsuleManifest(path).catch((cause) => {
    throw cause instanceof MurError && cause.code === "E-IO-001"
      ? new MurError("E-IO-001", cause.message, { hint: `name the manifest with --manifest, or create ${shown}` })
      : cause;
  });
  return {
    parsed,
    directory,
    stores: [projectStore(await projectRoot(directory) ?? directory), globalStore(search.home)],
    lockPath: `${directory}/murmur.lock`,
    readText: (path) => readOperatorText(path.startsWith("/") ? path : `${directory}/${path}`),
    components: () => componentsIn(directory),
    readComponent: () => readRootComponent(directory),
  };
}

/** Every component there, and the name that is preferred to all others. */
function componentsIn(directory: string): string[] {
  const base = directory === "/" ? "" : directory;
  const names = [...Deno.readDirSync(directory)].map(({ name }) => name).filter((name) => name.endsWith(".wasm"));
  return [...new Set([...names, PREFERRED_COMPONENT])].map((name) => `${base}/${name}`);
}

async function readRootComponent(directory: string): Promise<Uint8Array> {
  const names: string[] = [];
  for await (const { name, isFile } of Deno.readDir(directory)) {
    if (isFile && name.endsWith(".wasm")) names.push(name);
  }
  return await Deno.readFile(`${directory}/${scriptComponent(names, directory)}`);
}

function scriptComponent(names: Iterable<string>, where: string): string {
  try {
    return selectComponent(names);
  } catch (cause) {
    if (!(cause instanceof MurError)) throw cause;
    throw new MurError("E-RUN-004", `script capsule: ${cause.message} in ${where}`, {
      hint: "a capsule without an inference: block runs capsule.wasm, or the only root .wasm file",
      cause,
    });
  }
}

async function fromArchive(
  source: Extract<CapsuleSource, { kind: "installed" }>,
  search: SourceSearch,
): Promise<ManifestSource> {
  const base = search.storeRoot === null ? await projectRoot(search.cwd) ?? search.cwd : search.storeRoot;
  const stores = [projectStore(base), globalStore(search.home)];
  const name = bareHalf(source.name);
  const label = `${name}@${source.version}`;
  for (const store of stores) {
    const loaded = await store.load(name, source.version, hostPlatformTag());
    if (loaded === null) continue;
    if (source.sha256 !== null && source.sha256 !== loaded.artifact.sha256) {
      throw new MurError(
        "E-RUN-047",
        `${label} is not the capsule it was bound to\n  bound to  ${source.sha256}\n  installed ${loaded.artifact.sha256}`,
        { hint: "launch again" },
      );
    }
    const opened = await openPackage(loaded.bytes, label, search.maxBytes);
    requireIdentity(opened.manifest, name, source.version, `the archive of ${label}`);
    const read = async (path: string) => {
      const entry = opened.archive.entries.get(path.replace(/^(\.\/)+/, ""));
      if (entry === undefined) throw new MurError("E-IO-001", `${label} does not contain ${path}`);
      return await readZipEntry(opened.archive, entry, search.maxBytes);
    };
    return {
      parsed: parseCapsuleManifest(opened.manifest.text, `${label}/${MANIFEST_NAME}`),
      directory: search.cwd,
      stores,
      lockPath: null,
      readText: async (path) => new TextDecoder().decode(await read(path)),
      components: () => [],
      readComponent: async () => await read(scriptComponent(opened.archive.entries.keys(), label)),
    };
  }
  throw new MurError("E-RUN-008", `capsule ${source.name}@${source.version} is not installed`, {
    hint: `mur install ${source.name}@${source.version}`,
  });
}
