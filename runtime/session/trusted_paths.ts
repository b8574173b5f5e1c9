/**
 * Which files a later launch trusts, so that no agent may write them (spec session 4.7, containment 4.8). Pure.
 *
 * @module
 */
import type { CapsuleManifest } from "../../artifact/manifest/capsule_manifest.ts";
import type { TrustedPath } from "../../base/trusted_files.ts";

/** Directories of a launch; absolute. */
export interface TrustedPlaces {
  /** The manifest's own path; `null` for an installed capsule. */
  readonly manifest: string | null;
  readonly manifestDir: string;
  /** Directory whose `.env` is read; `null` when there is none. */
  readonly workspaceRoot: string | null;
  readonly storeRoot: string | null;
  readonly cwd: string;
  /** Directories without a manifest in which a launch looks for its project's root. */
  readonly searched: readonly string[];
  /** What holds the component of a script capsule, or would be taken for it. */
  readonly components: readonly string[];
  /** `~/.murmur`: keys, installed artifacts, translations and records, wherever the work folder lies. */
  readonly murmurHome: string;
  /** What this program itself runs from, wherever the work folder lies. */
  readonly program: readonly TrustedPath[];
}

/** The trusted paths of a launch. */
export function trustedPaths(manifest: CapsuleManifest, places: TrustedPlaces): TrustedPath[] {
  const { manifestDir } = places;
  const directories = new Set(
    [manifestDir, places.workspaceRoot, places.storeRoot, places.cwd].filter((path): path is string => path !== null),
  );
  // Each once: the manifest is most often the murmur.yaml of its directory.
  const trusted = new Map<string, boolean>();
  const trust = (path: string, tree = false) => trusted.set(path, tree || trusted.get(path) === true);
  for (const directory of directories) {
    const base = directory === "/" ? "" : directory;
    for (const name of ["murmur.yaml", "murmur.lock", "roster.yaml", ".env"]) trust(`${base}/${name}`);
    trust(`${base}/.murmur`, true);
  }
  // With a manifest there it would be the project's root, and what lies beside it the project's store and environment.
  for (const directory of places.searched) trust(`${directory === "/" ? "" : directory}/murmur.yaml`);
  if (places.manifest !== null) trust(places.manifest);
  for (const component of places.components) trust(component);
  const beside = (path: string) => path.startsWith("/") ? path : `${manifestDir}/${path}`;
  const prompts = [manifest.inference?.systemPromptFile, manifest.inference?.compaction.systemPromptFile];
  for (const prompt of prompts) {
    if (prompt !== null && prompt !== undefined) trust(beside(prompt));
  }
  for (const { source } of manifest.artifacts) {
    if (source !== null) trust(beside(source), true);
  }
  trusted.delete(places.murmurHome);
  return [
    { path: places.murmurHome, tree: true, hidden: true },
    ...places.program,
    ...[...trusted].map(([path, tree]) => tree ? { path, tree } : { path }),
  ];
}
