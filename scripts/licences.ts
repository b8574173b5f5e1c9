/**
 * The licences of what the programs carry: Deno, the packages in the bundle and those these need in turn, the tools of
 * `mur build`, and the C libraries that the launcher and the containment helper are linked with.
 *
 * @module
 */
import { packageFile } from "../toolchain/package_file.ts";
import { type BuildTarget, DENO_VERSION } from "./build_target.ts";
import { npmPackage } from "./npm_package.ts";

const ROOT = decodeURIComponent(new URL("..", import.meta.url).pathname);

/** A package at a version. */
export interface Package {
  readonly name: string;
  readonly version: string;
}

/** What is read of `deno.lock`. */
export interface LockedPackages {
  readonly npm: Readonly<Record<string, { readonly dependencies?: readonly string[] }>>;
}

/**
 * Packages of which nothing is carried: what only tests use, and what the translator comes with for uses that are not made
 * of it: optimising, shrinking, and running components under Node.
 */
export const NOT_CARRIED: readonly string[] = [
  "@bytecodealliance/jco-node-fs",
  "@bytecodealliance/preview3-shim",
  "ajv",
  "binaryen",
  "fast-check",
  "oxc-minify",
];

/** A package's name and version out of `name@version`; what follows a `_` tells whom it shares packages with. */
function packageOf(written: string): Package | null {
  const [, name, version] = /^((?:@[^/]+\/)?[^@/]+)@([^/_]+)/.exec(written) ?? [];
  return name === undefined ? null : { name, version: version! };
}

/** Every package that something carried is made from, by name: those a program imports and what these need. Pure. */
export function carriedPackages(
  imports: Readonly<Record<string, string>>,
  { npm }: LockedPackages,
): readonly Package[] {
  const found = new Map<string, Package>();
  const take = (written: string) => {
    const keys = Object.keys(npm).filter((key) =>
      key === written || key.startsWith(`${written}@`) || key.startsWith(`${written}_`)
    );
    if (keys.length === 0) throw new Error(`deno.lock has no ${written}`);
    for (const key of keys) {
      const each = packageOf(key)!;
      if (found.has(key) || NOT_CARRIED.includes(each.name)) continue;
      found.set(key, each);
      for (const dependency of npm[key]!.dependencies ?? []) take(dependency);
    }
  };
  for (const target of Object.values(imports)) {
    const each = target.startsWith("npm:") ? packageOf(target.slice("npm:".length)) : null;
    if (each !== null) take(`${each.name}@${each.version}`);
  }
  const all = new Map([...found.values()].map((each) => [`${each.name}@${each.version}`, each]));
  return [...all].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => each);
}

/** The packages of this checkout. */
export async function ownPackages(): Promise<readonly Package[]> {
  const read = async (name: string) => JSON.parse(await Deno.readTextFile(`${ROOT}${name}`));
  return carriedPackages((await read("deno.json")).imports, await read("deno.lock"));
}

/** A library that programs in C are linked with, and the Debian package it comes from. */
const LIBRARIES = [
  { name: "Zstandard", debian: "libzstd-dev", licence: "BSD-3-Clause" },
  { name: "GNU C Library", debian: "libc6-dev", licence: "LGPL-2.1-or-later" },
  { name: "musl", debian: "musl-dev", licence: "MIT" },
];

/** Debian's copyright files name the text of a common licence by its place. */
const COMMON_LICENCE = "/usr/share/common-licenses/LGPL-2.1";

function section(title: string, text: string): string {
  const line = "=".repeat(80);
  return `${line}\n${title}\n${line}\n\n${text.trim()}`;
}

/** The texts for programs for some machines, one after the other. @throws {Error} When a package cannot be had. */
export async function thirdPartyLicences(targets: readonly BuildTarget[]): Promise<string> {
  const packages = await ownPackages();
  const versionOf = (name: string) => packages.find((each) => each.name === name)!.version;
  const sections = [section("Murmur", await Deno.readTextFile(`${ROOT}LICENSE`))];
  const deno = await licenceOf("deno", DENO_VERSION);
  sections.push(section(`deno ${DENO_VERSION}`, deno ?? "MIT"));
  for (const { name, version } of packages) {
    sections.push(section(`${name} ${version}`, await textOf(name, version)));
  }
  // What belongs to one machine is part of the package it is named for.
  for (const { denoPackage, esbuildPackage, addonPackage } of targets) {
    const parts = [[denoPackage, "deno", DENO_VERSION]];
    for (const [part, whole] of [[esbuildPackage, "esbuild"], [addonPackage, "componentize-qjs"]] as const) {
      parts.push([part, whole, versionOf(whole)]);
    }
    for (const [part, whole, version] of parts) {
      sections.push(section(`${part} ${version}`, `Machine code of ${whole}, under the licence of that.`));
    }
  }
  if (targets.some(({ os }) => os === "linux")) sections.push(...await librarySections());
  return `${sections.join("\n\n")}\n`;
}

/** Those that lie on this machine: no other can have been linked with. Where that is not to be told, all by name. */
async function librarySections(): Promise<string[]> {
  const sections: string[] = [];
  for (const { name, debian, licence } of LIBRARIES) {
    const text = await Deno.readTextFile(`/usr/share/doc/${debian}/copyright`).catch(() => null);
    if (text !== null) sections.push(section(`${name} (${licence}), in the launcher and the containment helper`, text));
  }
  if (sections.length === 0) {
    return LIBRARIES.map(({ name, licence }) => section(name, `${licence} (its text is not on the building machine)`));
  }
  const common = await Deno.readTextFile(COMMON_LICENCE).catch(() => null);
  if (common !== null) sections.push(section("GNU Lesser General Public License 2.1", common));
  return sections;
}

async function textOf(name: string, version: string): Promise<string> {
  const text = await licenceOf(name, version);
  if (text !== null) return text;
  const { license } = JSON.parse(await Deno.readTextFile(`${await folderOf(name, version)}/package.json`));
  if (typeof license !== "string") throw new Error(`${name} has no licence`);
  return license === "Apache-2.0"
    ? `${license}, whose text stands above`
    : `${license} (the package has no text of it)`;
}

/** The licence and the notices of a package; `null` when it has none. */
async function licenceOf(name: string, version: string): Promise<string | null> {
  const folder = await folderOf(name, version);
  const files = (await Array.fromAsync(Deno.readDir(folder))).filter(({ isFile }) => isFile).map(({ name }) => name)
    .filter((file) => /^(licen[cs]e|notice|copying|thirdpartynotice)/i.test(file)).sort();
  const texts = await Promise.all(files.map((file) => Deno.readTextFile(`${folder}/${file}`)));
  return texts.length === 0 ? null : texts.map((text) => text.trim()).join("\n\n");
}

/** Where a package lies: in the package cache, which holds all that this checkout needs, else fetched. */
async function folderOf(name: string, version: string): Promise<string> {
  const [cache, rest] = decodeURIComponent(packageFile("esbuild").pathname).split("/esbuild/");
  const folder = `${cache}/${name}/${version}`;
  const found = rest === undefined ? null : await Deno.stat(`${folder}/package.json`).catch(() => null);
  return found === null ? await npmPackage(name, version) : folder;
}
