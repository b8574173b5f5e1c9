/**
 * `mur publish [artifact]`: files an archive in the global store, or sends it to a remote registry (spec cli 10.3).
 *
 * @module
 */
import { prepareMurmurHome } from "../base/private_directory.ts";
import { parseArtifactManifest } from "../artifact/manifest/artifact_manifest.ts";
import { ARCHIVE_SUFFIX } from "../artifact/package.ts";
import { hostPlatformTag, parsePlatform, platformTag } from "../artifact/platform.ts";
import { inspectArchive, refuseReservedVersion, requireHostPlatform } from "../artifact/publication.ts";
import { readRegistryBlock, selectRegistry } from "../artifact/registry/registry_selection.ts";
import { globalStore, readArchive } from "../artifact/store.ts";
import { maxDecompressedBytes } from "../artifact/zip_archive.ts";
import { ioError, MurError } from "../base/errors.ts";
import { absolutePath } from "../base/paths.ts";
import type { CliContext } from "./context.ts";
import { openRegistryAccess } from "./registry_access.ts";

/** Flags of `mur publish`. */
export interface PublishFlags {
  readonly registry?: string;
  readonly platform?: string;
}

/** Publishes an archive and prints its reference. */
export async function publish(context: CliContext, flags: PublishFlags, artifact?: string): Promise<number> {
  const given = flags.platform === undefined ? null : parsePlatform(flags.platform);
  const path = artifact === undefined ? await defaultArchive(context.cwd) : absolutePath(context.cwd, artifact);
  const bytes = await readArchive(path);
  if (bytes === null) {
    throw new MurError("E-IO-001", `no artifact archive at ${path}`, { hint: "make it with mur build" });
  }
  const inspected = await inspectArchive(bytes, path, maxDecompressedBytes(context.env), given ?? undefined);
  const { name, version } = inspected.metadata;
  refuseReservedVersion(version);
  const native = given !== null || inspected.metadata.kind === "native";
  const platform = native ? given ?? requireHostPlatform(hostPlatformTag()) : null;
  if (native && given === null) context.stdout.line(`Platform: ${platformTag(platform!)} (auto-detected)`);
  const metadata = native
    ? { ...inspected.metadata, kind: "native" as const, platforms: [platform!] }
    : inspected.metadata;

  const choice = selectRegistry(flags.registry, await readRegistryBlock(`${context.cwd}/murmur.yaml`));
  if (choice.kind === "local") {
    const home = context.home();
    prepareMurmurHome(home);
    await globalStore(home).put({ metadata, platform, bytes }, "publish");
  } else {
    const { RemoteRegistry } = await import("../artifact/registry/remote_registry.ts");
    const access = await openRegistryAccess(context);
    const progress = context.progress(`publishing ${name}@${version}`);
    try {
      const { send } = access.client;
      const apiKey = context.env.get("NEXUS_API_KEY");
      await new RemoteRegistry({ url: choice.url, apiKey, send, bounds: context.bounds }).publish(metadata, bytes);
    } finally {
      progress.done();
      access.close();
    }
  }
  context.stdout.line(`Published ${name}@${version}`);
  return 0;
}

async function defaultArchive(cwd: string): Promise<string> {
  const path = `${cwd}/murmur.yaml`;
  let bytes: Uint8Array;
  try {
    bytes = await Deno.readFile(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw ioError(`read ${path}`, error);
    throw new MurError("E-IO-001", `murmur.yaml not found at ${path}`, {
      hint: "name the archive: mur publish <file>.mur.zip",
    });
  }
  const { name, version } = parseArtifactManifest(bytes, "murmur.yaml");
  return absolutePath(cwd, `${name}-${version}${ARCHIVE_SUFFIX}`);
}
