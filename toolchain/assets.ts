/**
 * Everything `mur build` needs beside the author's files and its three tools: the interface packages, the guest library
 * (as bundled code and as source for the type checker), and TypeScript's own declaration files. All of it is text, so that
 * a program in one file can carry it, as JSON in {@linkcode CARRIED_ASSETS}.
 *
 * @module
 */
import { embeddedFile } from "../base/program.ts";
import { AUTHOR_GLOBALS } from "./author_globals.ts";
import { bundleLibrary } from "./bundle.ts";
import { loadEngine } from "./engine.ts";
import { packageFile } from "./package_file.ts";

/** Texts by file name. Plain JSON. */
export interface Assets {
  /** `package.wit` of each interface package, by its folder under `wit/`. */
  readonly wit: Readonly<Record<string, string>>;
  /** The guest library as JavaScript modules: one per `murmur/…` specifier, `library.js`, and shared chunks. */
  readonly library: Readonly<Record<string, string>>;
  /** Sources of the guest library, and `globals.d.ts`. */
  readonly types: Readonly<Record<string, string>>;
  /** TypeScript's `lib.*.d.ts`. */
  readonly lib: Readonly<Record<string, string>>;
  /** The prepared JavaScript engine in Base64; taken from `componentize-qjs` when absent. */
  readonly engine?: string;
}

/** The modules authors import as `murmur/<name>`. */
export const AUTHOR_MODULES: readonly string[] = ["capsule", "driver", "environment", "files", "hook", "sse", "tool"];

let current: Promise<Assets> | null = null;

/** The assets beside a bundle. */
export const CARRIED_ASSETS = "toolchain/assets.json";

/** The assets of this program: those it carries, else read from the checkout. */
export function assets(): Promise<Assets> {
  current ??= readAssets(embeddedFile(CARRIED_ASSETS));
  return current;
}

async function readAssets(carried: string | null): Promise<Assets> {
  return carried === null ? await collectAssets() : JSON.parse(await Deno.readTextFile(carried)) as Assets;
}

/**
 * Reads and bundles everything from the checkout this module lies in.
 *
 * @param withEngine The engine too, which a program in one file has to carry.
 */
export async function collectAssets(withEngine = false): Promise<Assets> {
  const [wit, types, lib] = await Promise.all([
    readWit(new URL("../wit/", import.meta.url)),
    readTexts(
      new URL("../guest/", import.meta.url),
      (name) => name.endsWith(".ts") && !/_test\.ts$|^testing_/.test(name),
    ),
    readTexts(new URL(".", packageFile("typescript")), (name) => /^lib\..*\.d\.ts$/.test(name)),
  ]);
  const library = await bundleLibrary(types, AUTHOR_MODULES);
  const collected = { wit, library, types: { ...types, "globals.d.ts": AUTHOR_GLOBALS }, lib };
  return withEngine ? { ...collected, engine: (await loadEngine()).toBase64() } : collected;
}

async function readTexts(folder: URL, wanted: (name: string) => boolean): Promise<Record<string, string>> {
  const names: string[] = [];
  for await (const entry of Deno.readDir(folder)) if (entry.isFile && wanted(entry.name)) names.push(entry.name);
  const texts = await Promise.all(names.sort().map((name) => Deno.readTextFile(new URL(name, folder))));
  return Object.fromEntries(names.map((name, index) => [name, texts[index] ?? ""]));
}

async function readWit(folder: URL): Promise<Record<string, string>> {
  const names: string[] = [];
  for await (const entry of Deno.readDir(folder)) if (entry.isDirectory) names.push(entry.name);
  const texts = await Promise.all(
    names.sort().map((name) => Deno.readTextFile(new URL(`${name}/package.wit`, folder))),
  );
  return Object.fromEntries(names.map((name, index) => [name, texts[index] ?? ""]));
}
