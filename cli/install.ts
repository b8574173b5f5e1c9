/**
 * `mur install [ref]` (spec cli 11.1).
 *
 * @module
 */
import { prepareMurmurHome } from "../base/private_directory.ts";
import type { ArtifactMetadata } from "../artifact/artifact_metadata.ts";
import { parseReference } from "../artifact/artifact_name.ts";
import {
  type ArrivedArchive,
  type ArtifactOrigins,
  fileArchive,
  findArchive,
  type InstalledArtifact,
  refuseConflict,
} from "../artifact/installer.ts";
import {
  EMPTY_LOCK,
  findPin,
  LOCK_NAME,
  type LockFile,
  pinArtifact,
  readLock,
  updateLock,
} from "../artifact/lockfile.ts";
import { readCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { hostPlatformTag, parsePlatform, PLATFORM_TAGS } from "../artifact/platform.ts";
import { type ArtifactSource, storeSource } from "../artifact/registry/artifact_source.ts";
import { GitHubReleases, releaseArchives } from "../artifact/registry/github_source.ts";
import { type InstallReference, parseInstallReference } from "../artifact/registry/install_reference.ts";
import { readRegistryBlock, selectRegistry } from "../artifact/registry/registry_selection.ts";
import { fetchFromChain, repositoryToken } from "../artifact/registry/source_chain.ts";
import { sha256Hex } from "../artifact/sha256.ts";
import { type ArtifactStore, globalStore, projectStore, readArchive } from "../artifact/store.ts";
import { maxDecompressedBytes } from "../artifact/zip_archive.ts";
import { formatError, MurError, reasonOf } from "../base/errors.ts";
import { projectRoot } from "../artifact/project_root.ts";
import { absolutePath } from "../base/paths.ts";
import type { CliContext } from "./context.ts";
import { precompileComponent } from "./precompile_component.ts";
import { openRegistryAccess, type RegistryAccess } from "./registry_access.ts";
import { UsageError } from "./usage_error.ts";

/** Flags of `mur install`. */
export interface InstallFlags {
  readonly global?: boolean;
  readonly registry?: string;
  readonly "all-platforms"?: boolean;
  /** False for `--no-precompile`. */
  readonly precompile?: boolean;
}

/** Translates a component into `~/.murmur/compiled/`; replaced in tests. @throws {MurError} */
export type Precompile = (
  context: CliContext,
  metadata: ArtifactMetadata,
  component: Uint8Array<ArrayBuffer>,
  archiveSha256: string,
) => Promise<unknown>;

/** Artifacts that are fetched at the same time. */
const PARALLEL = 6;

/** Roles whose component is translated at install. */
const PRECOMPILED_ROLES = ["tool", "driver", "hook"];

/** One `mur install`. */
interface Installation {
  readonly context: CliContext;
  readonly flags: InstallFlags;
  readonly access: RegistryAccess;
  readonly origins: ArtifactOrigins;
  readonly store: ArtifactStore;
  /** Path of the lock; `null` with `-g`. */
  readonly lockPath: string | null;
  readonly projectRoot: string | null;
  readonly maxBytes: number;
  readonly precompile: Precompile;
}

/** Installs what a reference names, or everything the project's manifest declares. */
export async function install(
  context: CliContext,
  flags: InstallFlags,
  reference?: string,
  precompile: Precompile = precompileComponent,
): Promise<number> {
  const parsed = reference === undefined ? null : parseInstallReference(reference);
  if (flags["all-platforms"]) {
    if (parsed === null || parsed.kind !== "artifact" || parsed.version === null) {
      throw new UsageError("--all-platforms needs <name>@<version>");
    }
    if (flags.registry !== undefined) throw new UsageError("--all-platforms asks the sources, not --registry");
  }
  const home = context.home();
  const root = await projectRoot(context.cwd);
  const toGlobal = flags.global === true || flags["all-platforms"] === true;
  if (!toGlobal && root === null) {
    throw new MurError("E-IO-001", `no murmur.yaml at or above ${context.cwd}`, {
      hint: "run mur install in a project, or install for every project with -g",
    });
  }
  const access = await openRegistryAccess(context);
  try {
    if (toGlobal) prepareMurmurHome(home);
    const installation: Installation = {
      context,
      flags,
      access,
      origins: {
        registry: () => chosenRegistry(context, flags.registry, access),
        sources: (scope) => access.sources(scope),
        platform: hostPlatformTag() === "unknown" ? null : hostPlatformTag(),
      },
      store: toGlobal ? globalStore(home) : projectStore(root!),
      lockPath: toGlobal ? null : `${root}/${LOCK_NAME}`,
      projectRoot: root,
      maxBytes: maxDecompressedBytes(context.env),
      precompile,
    };
    if (parsed === null) return await installManifest(installation);
    switch (parsed.kind) {
      case "file":
        return await installFile(installation, parsed.path);
      case "release":
        return await installRelease(installation, parsed);
      case "artifact":
        return flags["all-platforms"]
          ? await installAllPlatforms(installation, parsed)
          : await installArtifact(installation, parsed);
    }
  } finally {
    access.close();
  }
}

async function chosenRegistry(
  context: CliContext,
  flag: string | undefined,
  access: RegistryAccess,
): Promise<ArtifactSource> {
  const choice = selectRegistry(flag, await readRegistryBlock(`${context.cwd}/murmur.yaml`));
  if (choice.kind === "local") return storeSource(globalStore(context.home()), "the global store");
  const { RemoteRegistry } = await import("../artifact/registry/remote_registry.ts");
  const apiKey = context.env.get("NEXUS_API_KEY");
  return new RemoteRegistry({ url: choice.url, apiKey, send: access.client.send, bounds: context.bounds });
}

async function installArtifact(
  installation: Installation,
  reference: Extract<InstallReference, { kind: "artifact" }>,
): Promise<number> {
  const { context, origins, lockPath } = installation;
  const { name, version } = reference;
  const progress = context.progress(`installing ${name.bare}`);
  try {
    const lock = lockPath === null ? null : await readLock(lockPath);
    const archive = await findArchive(origins, name, version);
    const installed = await file(installation, archive, lock, { name: name.bare, version });
    const adopted = await pin(installation, [installed]);
    report(context, installed);
    for (const line of adopted) context.stdout.line(line);
    await translate(installation, [installed]);
    return 0;
  } finally {
    progress.done();
  }
}

async function installFile(installation: Installation, path: string): Promise<number> {
  const { context } = installation;
  const bytes = await readArchive(absolutePath(context.cwd, path));
  if (bytes === null) throw new MurError("E-IO-001", `no artifact archive at ${path}`);
  // The file vouches for itself: whoever names it trusts it. No lock entry is made (spec cli 9).
  const archive = { bytes, sha256: await sha256Hex(bytes), label: path, source: path };
  const installed = await file(installation, archive, null);
  report(context, installed);
  await translate(installation, [installed]);
  return 0;
}

async function installRelease(
  installation: Installation,
  { repository, tag }: Extract<InstallReference, { kind: "release" }>,
): Promise<number> {
  const { context, access, lockPath } = installation;
  const repo = `${repository.owner}/${repository.name}`;
  const releases = new GitHubReleases(
    repository,
    repositoryToken(repo, access.configuration.sources, context.env),
    access.github,
  );
  const progress = context.progress(`installing ${releases.label}@${tag}`);
  try {
    const lock = lockPath === null ? null : await readLock(lockPath);
    const installed: InstalledArtifact[] = [];
    for (const { asset, artifact } of await releaseArchives(releases, tag)) {
      const platform = PLATFORM_TAGS.find((each) => asset.endsWith(`-${each}.mur.zip`));
      const archive = { ...artifact, label: `'${asset}' from ${releases.label}`, source: `${releases.label}@${tag}` };
      const wanted = platform === undefined ? undefined : parsePlatform(platform);
      installed.push(await file(installation, archive, lock, undefined, wanted));
    }
    const adopted = await pin(installation, installed);
    for (const each of installed) report(context, each);
    for (const line of adopted) context.stdout.line(line);
    await translate(installation, installed);
    return 0;
  } finally {
    progress.done();
  }
}

/** Files every platform's asset under its tag in the global store; no lock. */
async function installAllPlatforms(
  installation: Installation,
  { name, version }: Extract<InstallReference, { kind: "artifact" }>,
): Promise<number> {
  const { context, origins } = installation;
  const sources = origins.sources(name.scope);
  const progress = context.progress(`installing ${name.bare} for every platform`);
  const label = `${name.bare}@${version}`;
  const installed: InstalledArtifact[] = [];
  const missing: string[] = [];
  try {
    for (const tag of PLATFORM_TAGS) {
      try {
        const { artifact, source } = await fetchFromChain(sources, { name: name.bare, version, platform: tag });
        const archive = { ...artifact, label: `${label} from ${source}`, source };
        const wanted = { name: name.bare, version };
        const each = await file(installation, archive, null, wanted, parsePlatform(tag));
        installed.push(each);
        // One archive for every platform: the other tags would give the same.
        if (each.platform === null) break;
      } catch (error) {
        const absent = error instanceof MurError && error.code === "E-REG-001" && sources.length > 0;
        if (!absent) throw error;
        missing.push(tag);
      }
    }
    if (installed.length === 0) {
      throw new MurError("E-REG-001", `no source has '${label}' for any platform`, { hint: "check name and version" });
    }
    for (const tag of missing) context.stderr.line(`warning: no asset of ${label} for ${tag}`);
    for (const each of installed) report(context, each);
    await translate(installation, installed);
    return 0;
  } finally {
    progress.done();
  }
}

/** One declared artifact and how its installation ended. */
interface DeclaredOutcome {
  readonly reference: string;
  readonly installed?: InstalledArtifact;
  readonly error?: MurError;
}

async function installManifest(installation: Installation): Promise<number> {
  const { context, lockPath, origins } = installation;
  const path = `${installation.projectRoot ?? context.cwd}/murmur.yaml`;
  const { manifest } = await readCapsuleManifest(path, { dropLiteralKeys: true });
  const references = manifest.artifacts.filter((entry) => entry.source === null)
    .map((entry) => `${entry.name}@${entry.version}`);
  if (references.length === 0) {
    context.stdout.line("No artifacts in manifest.");
    return 0;
  }
  const lock = lockPath === null ? null : await readLock(lockPath);
  const progress = context.progress(`installing ${references.length} artifacts`);
  let done = 0;
  try {
    const outcomes = await inParallel(references, PARALLEL, async (reference): Promise<DeclaredOutcome> => {
      try {
        const { name, version } = parseReference(reference);
        const archive = await findArchive(origins, name, version);
        return { reference, installed: await file(installation, archive, lock, { name: name.bare, version }) };
      } catch (error) {
        if (error instanceof MurError) return { reference, error };
        throw error;
      } finally {
        progress.update(`installed ${++done} of ${references.length} artifacts`);
      }
    });
    const installed = outcomes.flatMap((outcome) => outcome.installed ?? []);
    const adopted = await pin(installation, installed);
    const failures = outcomes.filter((outcome) => outcome.error !== undefined);
    if (failures.length === 0) {
      for (const each of installed) report(context, each);
    } else {
      reportFailures(context, failures, installed, references.length);
    }
    for (const line of adopted) context.stdout.line(line);
    await translate(installation, installed);
    return failures.length === 0 ? 0 : 1;
  } finally {
    progress.done();
  }
}

function reportFailures(
  context: CliContext,
  failures: readonly DeclaredOutcome[],
  installed: readonly InstalledArtifact[],
  total: number,
): void {
  context.stdout.line(`${failures.length} of ${total} artifact(s) failed to install:`);
  for (const { reference, error } of failures) {
    context.stdout.line(`\n  ${reference}`);
    for (const line of formatError(error!).split("\n")) context.stdout.line(`    ${line}`);
  }
  if (installed.length > 0) {
    context.stdout.line(`\ninstalled ${installed.map(({ name, version }) => `${name}@${version}`).join(", ")}`);
  }
}

async function file(
  installation: Installation,
  archive: ArrivedArchive,
  lock: LockFile | null,
  wanted?: { readonly name: string; readonly version: string | null },
  platform?: readonly [string, string],
): Promise<InstalledArtifact> {
  const { store, maxBytes } = installation;
  return await fileArchive(archive, {
    store,
    lock,
    maxBytes,
    ...(wanted === undefined ? {} : { wanted }),
    ...(platform === undefined ? {} : { platform }),
  });
}

/** Pins artifacts in one write and answers the lines about pulled ones that the operator adopted. */
async function pin(installation: Installation, installed: readonly InstalledArtifact[]): Promise<string[]> {
  const { lockPath } = installation;
  if (lockPath === null || installed.length === 0) return [];
  const adopted: string[] = [];
  let conflict: MurError | null = null;
  await updateLock(lockPath, (current) => {
    let lock = current ?? EMPTY_LOCK;
    for (const artifact of installed) {
      try {
        // Another process may have pinned since the first check.
        refuseConflict(lock, artifact);
      } catch (error) {
        if (!(error instanceof MurError)) throw error;
        conflict ??= error;
        continue;
      }
      const before = findPin(lock, artifact.name);
      lock = pinArtifact(lock, artifact, { origin: "operator" });
      if (before?.origin !== "runtime") continue;
      const reference = `${artifact.name}@${artifact.version}`;
      adopted.push(
        `Adopted ${reference} as operator-declared (it was pulled at runtime by session ${before.session})`,
      );
    }
    return lock;
  });
  if (conflict !== null) throw conflict;
  return adopted;
}

function report(context: CliContext, { name, version, path, source }: InstalledArtifact): void {
  context.stdout.line(
    source === null ? `Installed ${name}@${version} → ${path}` : `Installed ${name}@${version} from ${source}`,
  );
}

/** Translates the components of tools, drivers and hooks. A failure is told and changes nothing else. */
async function translate(installation: Installation, installed: readonly InstalledArtifact[]): Promise<void> {
  const { context, flags, precompile } = installation;
  if (flags.precompile === false) return;
  for (const { metadata, component, sha256 } of installed) {
    if (component === null || !PRECOMPILED_ROLES.includes(metadata.role)) continue;
    const reference = `${metadata.name}@${metadata.version}`;
    const progress = context.progress(`compiling ${reference}`);
    try {
      await precompile(context, metadata, component, sha256);
    } catch (error) {
      context.stderr.line(`warning: ${reference} is installed but does not compile: ${reasonOf(error)}`);
    } finally {
      progress.done();
    }
  }
}

/** Runs a bounded number of pieces of work at a time; results in the order of the items. */
async function inParallel<T, R>(items: readonly T[], most: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const worker = async () => {
    for (let index = next++; index < items.length; index = next++) results[index] = await work(items[index]!);
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker));
  return results;
}
