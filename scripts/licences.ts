/**
 * The licences of what the programs carry: Deno, the packages in the bundle, the tools of `mur build`.
 *
 * @module
 */
import { DENO_VERSION } from "./build_target.ts";
import { npmPackage } from "./npm_package.ts";

const ROOT = decodeURIComponent(new URL("..", import.meta.url).pathname);

/** Packages that only tests and builds use. */
const NOT_CARRIED = ["ajv", "fast-check", "gpt-tokenizer"];

/** Names under which packages keep their licence. */
const FILES = ["LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "license", "License"];

/** The texts, one after the other. @throws {Error} When a package cannot be had or has none. */
export async function thirdPartyLicences(): Promise<string> {
  const { imports } = JSON.parse(await Deno.readTextFile(`${ROOT}deno.json`)) as { imports: Record<string, string> };
  const packages = new Map<string, string>([["deno", DENO_VERSION]]);
  for (const target of Object.values(imports)) {
    const [, name, version] = /^npm:((?:@[^/]+\/)?[^@/]+)@([^/]+)/.exec(target) ?? [];
    if (name !== undefined && !NOT_CARRIED.includes(name)) packages.set(name, version!);
  }
  const texts: string[] = [];
  for (const [name, version] of [...packages].sort(([a], [b]) => (a < b ? -1 : 1))) {
    texts.push(`${"=".repeat(80)}\n${name} ${version}\n${"=".repeat(80)}\n\n${await licenceOf(name, version)}`);
  }
  return texts.join("\n\n");
}

async function licenceOf(name: string, version: string): Promise<string> {
  const folder = await npmPackage(name, version);
  for (const file of FILES) {
    const text = await Deno.readTextFile(`${folder}/${file}`).catch(() => null);
    if (text !== null) return text.trim();
  }
  const { license } = JSON.parse(await Deno.readTextFile(`${folder}/package.json`)) as { license?: string };
  if (license === undefined) throw new Error(`${name} has no licence`);
  return `${license} (the package has no text of it)`;
}
