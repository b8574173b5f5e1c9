/**
 * Builds the first-party artifacts of `components/` into `dist/components/`, as `mur build` does. What is up to date by the
 * hash of everything it is made of is left alone.
 *
 * Usage: `deno task build:components [name…]`
 *
 * @module
 */
import { build } from "../cli/build.ts";
import { processContext } from "../cli/context.ts";
import { parseArtifactManifest } from "../artifact/manifest/artifact_manifest.ts";

const ROOT = new URL("../", import.meta.url);
const SOURCES = new URL("components/", ROOT);
const OUTPUT = new URL("dist/components/", ROOT);

/** What every component is made of besides its own folder. */
const COMMON = ["components/driver_support/", "guest/", "toolchain/", "wit/"];

const PACKAGES = [
  "@bytecodealliance/jco-transpile/component",
  "@exodus/bytes/encoding-lite.js",
  "componentize-qjs",
  "esbuild",
  "eventsource-parser",
  "typescript",
  "whatwg-url-minimum",
];

/** Path of a file URL. */
function pathOf(url: URL): string {
  return decodeURIComponent(url.pathname);
}

async function filesBelow(folder: URL): Promise<URL[]> {
  const found: URL[] = [];
  let entries: Deno.DirEntry[];
  try {
    entries = await Array.fromAsync(Deno.readDir(folder));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.isDirectory) found.push(...await filesBelow(new URL(`${entry.name}/`, folder)));
    else if (!entry.name.endsWith("_test.ts")) found.push(new URL(entry.name, folder));
  }
  return found;
}

/** The pinned packages a component is made with or of. */
async function pinnedPackages(): Promise<string[]> {
  const config = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT))) as { imports: Record<string, string> };
  return PACKAGES.map((name) => `${name} ${config.imports[name]}`);
}

async function hashOf(files: readonly URL[], further: readonly string[] = []): Promise<string> {
  const parts: string[] = [...further];
  for (const file of files) {
    const digest = await crypto.subtle.digest("SHA-256", await Deno.readFile(file));
    parts.push(`${file.href.slice(ROOT.href.length)} ${new Uint8Array(digest).toHex()}`);
  }
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(parts.join("\n")));
  return new Uint8Array(digest).toHex();
}

async function readText(path: URL | string): Promise<string | null> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Only what a build says besides its result. */
function quietContext() {
  const context = processContext();
  return { ...context, stdout: { ...context.stdout, line: () => true, write: () => true } };
}

interface FirstParty {
  readonly name: string;
  readonly folder: URL;
  readonly archive: URL;
}

async function listComponents(): Promise<FirstParty[]> {
  const found: FirstParty[] = [];
  for await (const entry of Deno.readDir(SOURCES)) {
    if (!entry.isDirectory) continue;
    const folder = new URL(`${entry.name}/`, SOURCES);
    const text = await readText(new URL("murmur.yaml", folder));
    if (text === null) continue;
    const { name, version } = parseArtifactManifest(text, `components/${entry.name}/murmur.yaml`);
    found.push({ name, folder, archive: new URL(`${name}-${version}.mur.zip`, OUTPUT) });
  }
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Builds one component unless it is up to date; tells whether it did. */
async function buildOne(component: FirstParty, common: string): Promise<boolean> {
  const key = await hashOf(await filesBelow(component.folder)) + common;
  const keyFile = new URL(`${component.archive.href}.key`);
  if (await readText(keyFile) === key && await readSize(component.archive) !== null) return false;
  await build(quietContext(), { output: pathOf(component.archive) }, pathOf(component.folder).replace(/\/$/, ""));
  await Deno.writeTextFile(keyFile, key);
  return true;
}

async function readSize(path: URL): Promise<number | null> {
  try {
    return (await Deno.stat(path)).size;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/**
 * The archives of all first-party artifacts by name, built first where they are not up to date.
 *
 * @param wanted Only these; all when absent.
 * @param onBuilt Told of each that was looked at.
 */
export async function firstPartyComponents(
  wanted?: readonly string[],
  onBuilt: (name: string, built: boolean, milliseconds: number, bytes: number) => void = () => {},
): Promise<Map<string, string>> {
  await Deno.mkdir(OUTPUT, { recursive: true });
  // Test files run at the same time; one of them builds, the others find it done.
  using lock = await Deno.open(new URL(".lock", OUTPUT), { create: true, write: true });
  await lock.lock(true);
  const sources = await Promise.all(COMMON.map((folder) => filesBelow(new URL(folder, ROOT))));
  const common = await hashOf(sources.flat(), await pinnedPackages());
  const archives = new Map<string, string>();
  for (const component of await listComponents()) {
    if (wanted !== undefined && !wanted.includes(component.name)) continue;
    const start = performance.now();
    const built = await buildOne(component, common);
    archives.set(component.name, pathOf(component.archive));
    onBuilt(component.name, built, performance.now() - start, await readSize(component.archive) ?? 0);
  }
  return archives;
}

if (import.meta.main) {
  await firstPartyComponents(Deno.args.length === 0 ? undefined : Deno.args, (name, built, milliseconds, bytes) => {
    const size = `${(bytes / 1024).toFixed(0)} KiB`;
    console.log(
      built ? `${name}  built in ${(milliseconds / 1000).toFixed(1)} s, ${size}` : `${name}  up to date, ${size}`,
    );
  });
}
