/**
 * `mur new capsule|tool|hook <NAME>`: a directory to start from, whole or not at all (spec cli 15.1, 15.2).
 *
 * @module
 */
import { bareNameProblem } from "../artifact/artifact_name.ts";
import { readConfiguration } from "../artifact/configuration.ts";
import { parseArtifactManifest } from "../artifact/manifest/artifact_manifest.ts";
import { gatewayEndpointProblem } from "../artifact/manifest/gateway_endpoint.ts";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { globalStore } from "../artifact/store.ts";
import { ioError, MurError } from "../base/errors.ts";
import { uuidV7 } from "../base/ids.ts";
import { RootedDir } from "../base/rooted_dir.ts";
import { isRootedError } from "../base/rooted_error.ts";
import type { CliContext } from "./context.ts";
import { CAPSULE_PROVIDERS, capsuleFiles, driverOf, type Provider } from "./templates/capsule_template.ts";
import { hookEntryLine, hookFiles } from "./templates/hook_template.ts";
import { toolFiles } from "./templates/tool_template.ts";

/** Flags of `mur new capsule`. */
export interface NewCapsuleFlags {
  /** `anthropic`, `openai` or `scripted`; default: that of the global configuration, else `anthropic`. */
  readonly provider?: string;
}

/** Makes a capsule. @throws {MurError} `E-NEW-002`, `E-NEW-003`, `E-NEW-004`, `E-MAN-003`, `E-IO-…`. */
export async function newCapsule(context: CliContext, flags: NewCapsuleFlags, name: string): Promise<number> {
  await requireFreeName(context, name);
  const home = context.home();
  // Where the directory is made decides nothing: only the global file counts (spec cli 5.3).
  const { global } = await readConfiguration({
    home,
    cwd: home.root,
    notice: (line) => void context.stderr.line(line),
  });
  const provider = providerOf(flags.provider ?? (global?.inferenceProvider || "anthropic"));
  // What is configured for one provider is no use to another.
  const configured = global !== null && (global.inferenceProvider || "anthropic") === provider ? global : null;
  const endpoint = configured?.inferenceEndpoint || null;
  const problem = endpoint === null ? null : gatewayEndpointProblem(endpoint);
  if (problem !== null) {
    throw new MurError("E-MAN-003", `inference.endpoint of ${global!.file} ${problem}`, {
      hint: "mur config set -g inference.endpoint <url>",
    });
  }
  const files = capsuleFiles({ name, provider, endpoint, model: configured?.inferenceModel || null });
  parseCapsuleManifest(files["murmur.yaml"]!, `${name}/murmur.yaml`);
  await writeProject(context, name, files);

  const driver = driverOf(provider);
  const steps: string[] = [];
  if (driver.key !== null && !global?.credentials.has(driver.key)) {
    steps.push(`printf %s "$${driver.key}" | mur config set -g credentials.${driver.key} -`);
  }
  steps.push(`cd ${name}`);
  if (await globalStore(home).resolve(driver.name, driver.version, null) === null) {
    steps.push(`mur install ${await builtArchive(driver) ?? `${driver.name}@${driver.version}`}`);
  }
  steps.push(`mur run --task "What is in your work folder?"`);
  printNext(context, name, files, steps);
  return 0;
}

/** Makes a tool. @throws {MurError} `E-NEW-002`, `E-NEW-003`, `E-IO-…`. */
export async function newTool(context: CliContext, name: string): Promise<number> {
  await requireFreeName(context, name);
  const files = toolFiles(name);
  const { version } = parseArtifactManifest(files["murmur.yaml"]!, `${name}/murmur.yaml`);
  await writeProject(context, name, files);
  printNext(context, name, files, [
    `mur build ${name}`,
    `mur install ./${name}/${name}-${version}.mur.zip   # in the directory of the capsule that uses it`,
  ]);
  return 0;
}

/** Makes a hook. @throws {MurError} `E-NEW-002`, `E-NEW-003`, `E-IO-…`. */
export async function newHook(context: CliContext, name: string): Promise<number> {
  await requireFreeName(context, name);
  const files = hookFiles(name);
  const { version } = parseArtifactManifest(files["murmur.yaml"]!, `${name}/murmur.yaml`);
  await writeProject(context, name, files);
  printNext(context, name, files, [
    `mur build ${name}`,
    `mur install ./${name}/${name}-${version}.mur.zip   # in the directory of the capsule that uses it`,
    `and in the artifacts: of its murmur.yaml   ${hookEntryLine(name, version)}`,
  ]);
  return 0;
}

function providerOf(text: string): Provider {
  const provider = CAPSULE_PROVIDERS.find((each) => each === text);
  if (provider !== undefined) return provider;
  throw new MurError("E-NEW-004", `there is no template for the provider '${text}'`, {
    hint: `choose one with --provider ${CAPSULE_PROVIDERS.join(", ")}; openai also serves compatible servers`,
  });
}

/** @throws {MurError} `E-NEW-002`, `E-NEW-003`. */
async function requireFreeName(context: CliContext, name: string): Promise<void> {
  const problem = bareNameProblem(name);
  if (problem !== null) {
    throw new MurError("E-NEW-002", `'${name}' is not an artifact name: ${problem}`, {
      hint: "names hold 1 to 100 lowercase letters, digits and '-'",
    });
  }
  try {
    await Deno.lstat(`${context.cwd}/${name}`);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw ioError(`look at ./${name}`, error);
  }
  throw taken(name);
}

function taken(name: string): MurError {
  return new MurError("E-NEW-003", `./${name} already exists`, { hint: "choose another name, or remove it" });
}

/** Writes the files beside their place and renames the directory, never over another. */
async function writeProject(
  context: CliContext,
  name: string,
  files: Readonly<Record<string, string>>,
): Promise<void> {
  const staging = `.${name}.tmp-${uuidV7()}`;
  try {
    await Deno.mkdir(`${context.cwd}/${staging}`);
    for (const [file, text] of Object.entries(files)) {
      await Deno.writeTextFile(`${context.cwd}/${staging}/${file}`, text);
    }
    using root = RootedDir.open(context.cwd);
    root.rename(staging, root, name, { noReplace: true });
  } catch (error) {
    await Deno.remove(`${context.cwd}/${staging}`, { recursive: true }).catch(() => {});
    if (isRootedError(error, "exist")) throw taken(name);
    if (error instanceof MurError) throw error;
    throw ioError(`make ./${name}`, error);
  }
}

/** Path of a driver that was built in the checkout this program runs from; `null` when there is none. */
async function builtArchive(
  { name, version }: { readonly name: string; readonly version: string },
): Promise<string | null> {
  const built = new URL(`../dist/components/${name}-${version}.mur.zip`, import.meta.url);
  if (built.protocol !== "file:") return null;
  const path = decodeURIComponent(built.pathname);
  return await Deno.stat(path).then(({ isFile }) => isFile ? path : null, () => null);
}

function printNext(
  context: CliContext,
  name: string,
  files: Readonly<Record<string, string>>,
  steps: readonly string[],
): void {
  for (const file of Object.keys(files)) context.stdout.line(`${name}/${file}`);
  context.stdout.line("");
  context.stdout.line("next:");
  for (const step of steps) context.stdout.line(`  ${step}`);
}
