/**
 * Which variables a capsule and the capsules it may spawn need, and whether they are there (spec cli 11.5, `E-CAP-014`,
 * `E-CAP-015`, `W-REG-002`). Values are never read out.
 *
 * @module
 */
import { findPin, type LockFile } from "../artifact/lockfile.ts";
import { bareHalf } from "../artifact/artifact_name.ts";
import type { CapsuleManifest } from "../artifact/manifest/capsule_manifest.ts";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { openPackage } from "../artifact/package.ts";
import type { ArtifactStore } from "../artifact/store.ts";
import { MurError } from "../base/errors.ts";

/** A capsule of the spawn closure. */
export interface ClosureCapsule {
  /** `name@version`. */
  readonly label: string;
  readonly manifest: CapsuleManifest;
}

/** What following `spawn.allow` found. */
export interface SpawnClosure {
  /** The capsule itself first. */
  readonly capsules: readonly ClosureCapsule[];
  /** Capsules that could not be inspected, with the reason. */
  readonly uninspected: readonly { readonly name: string; readonly reason: string }[];
  /** One cycle of labels, its first repeated at the end; `null` without one. */
  readonly cycle: readonly string[] | null;
  /** Declarations a spawn would be refused for: child, variable, and the spawner that lacks it. */
  readonly refused: readonly { readonly child: string; readonly variable: string; readonly spawner: string }[];
}

/** Where capsules of the closure are found. */
export interface ClosureLookup {
  readonly lock: LockFile | null;
  /** In order: project store, global store. */
  readonly stores: readonly ArtifactStore[];
  readonly platform: string;
  readonly maxBytes: number;
}

/** Follows `spawn.allow` from a capsule. */
export async function spawnClosure(root: CapsuleManifest, lookup: ClosureLookup): Promise<SpawnClosure> {
  const first: ClosureCapsule = { label: `${root.name}@${root.version}`, manifest: root };
  const byName = new Map<string, ClosureCapsule>();
  const uninspected = new Map<string, string>();
  const capsules = [first];
  const refused: { child: string; variable: string; spawner: string }[] = [];
  const edges = new Map<string, string[]>();
  for (let index = 0; index < capsules.length; index++) {
    const spawner = capsules[index]!;
    for (const name of spawner.manifest.capabilities.spawnAllow) {
      let child = byName.get(name);
      if (child === undefined && !uninspected.has(name)) {
        const found = await findCapsule(name, lookup);
        if (typeof found === "string") {
          uninspected.set(name, found);
          continue;
        }
        // A capsule that spawns itself is the one already known.
        child = capsules.find((capsule) => capsule.label === found.label) ?? found;
        if (child === found) capsules.push(child);
        byName.set(name, child);
      }
      if (child === undefined) continue;
      edges.set(spawner.label, [...(edges.get(spawner.label) ?? []), child.label]);
      const held = new Set(spawner.manifest.capabilities.envAllow);
      for (const variable of child.manifest.capabilities.envAllow) {
        if (!held.has(variable)) refused.push({ child: child.label, variable, spawner: spawner.label });
      }
    }
  }
  const reasons = [...uninspected].map(([name, reason]) => ({ name, reason }));
  return { capsules, uninspected: reasons, cycle: findCycle(edges), refused };
}

async function findCapsule(name: string, lookup: ClosureLookup): Promise<ClosureCapsule | string> {
  const bare = bareHalf(name);
  const store = await storeHolding(bare, lookup.stores);
  if (store === null) return "in neither store";
  const versions = await store.versions(bare);
  const pinned = lookup.lock === null ? undefined : findPin(lookup.lock, bare)?.version;
  const version = pinned ?? (versions.length === 1 ? versions[0]! : null);
  if (version === null) return `several versions (${versions.join(", ")}) and no pin`;
  try {
    const loaded = await store.load(bare, version, lookup.platform);
    if (loaded === null) return `pinned at ${version}, which is not installed`;
    const { manifest } = await openPackage(loaded.bytes, loaded.artifact.path, lookup.maxBytes);
    const parsed = parseCapsuleManifest(manifest.text, manifest.file, { dropLiteralKeys: true });
    return { label: `${bare}@${version}`, manifest: parsed.manifest };
  } catch (error) {
    if (error instanceof MurError) return error.message.split("\n")[0]!;
    throw error;
  }
}

async function storeHolding(name: string, stores: readonly ArtifactStore[]): Promise<ArtifactStore | null> {
  for (const store of stores) {
    if ((await store.versions(name)).length > 0) return store;
  }
  return null;
}

/** One cycle of a graph by labels, found depth first; `null` without one. */
export function findCycle(edges: ReadonlyMap<string, readonly string[]>): readonly string[] | null {
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (label: string): readonly string[] | null => {
    const at = path.indexOf(label);
    if (at !== -1) return [...path.slice(at), label];
    if (done.has(label)) return null;
    path.push(label);
    for (const next of edges.get(label) ?? []) {
      const cycle = visit(next);
      if (cycle !== null) return cycle;
    }
    path.pop();
    done.add(label);
    return null;
  };
  for (const label of edges.keys()) {
    const cycle = visit(label);
    if (cycle !== null) return cycle;
  }
  return null;
}

/** One variable that is needed. */
export interface RequiredVariable {
  readonly name: string;
  readonly isSet: boolean;
  /** Labels of the capsules that need it. */
  readonly capsules: readonly string[];
}

/**
 * The variables of the closure's `env.allow` lists, then the manifest's unset `${NAME}` references, each once.
 *
 * @param references Names of the manifest's references that are found nowhere.
 */
export function requiredVariables(
  closure: SpawnClosure,
  references: readonly string[],
  env: { get(name: string): string | undefined },
): readonly RequiredVariable[] {
  const needed = new Map<string, string[]>();
  for (const { label, manifest } of closure.capsules) {
    for (const name of manifest.capabilities.envAllow) {
      const capsules = needed.get(name) ?? [];
      if (!capsules.includes(label)) needed.set(name, [...capsules, label]);
    }
  }
  const root = closure.capsules[0]!.label;
  for (const name of references) {
    const capsules = needed.get(name) ?? [];
    if (!capsules.includes(root)) needed.set(name, [root, ...capsules]);
  }
  const missing = new Set(references);
  return [...needed].map(([name, capsules]) => ({
    name,
    capsules,
    isSet: !missing.has(name) && env.get(name) !== undefined,
  }));
}
