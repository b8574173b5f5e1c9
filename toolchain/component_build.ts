/**
 * Builds a WebAssembly component from one TypeScript file (spec manifest 5.6): bundle, type check, snapshot of the engine,
 * standard interface names, validation. The component is made twice; both must be the same bytes.
 *
 * @module
 */
import { sameBytes } from "../base/bytes.ts";
import { ioError, MurError, reasonOf } from "../base/errors.ts";
import { type Assets, assets } from "./assets.ts";
import { bundleComponent, type ComponentRole } from "./bundle.ts";
import { linkedWit, restoreVersions, withIdentity } from "./component_names.ts";
import { loadEngine } from "./engine.ts";
import { checkTypes } from "./type_check.ts";

export type { ComponentRole } from "./bundle.ts";

/** What to build. */
export interface ComponentSource {
  /** Path of the TypeScript or JavaScript file, as the operator would name it. */
  readonly entry: string;
  readonly role: ComponentRole;
  /** Name and version of the artifact; written into the component for other tools to show. */
  readonly name: string;
  readonly version: string;
}

let engine: Promise<Uint8Array<ArrayBuffer>> | null = null;

/**
 * Builds the component of an artifact.
 *
 * @throws {MurError} `E-BLD-005`, with the place in the author's file where there is one; `E-IO-…` when the file cannot be
 * read.
 */
export async function buildComponent(source: ComponentSource): Promise<{ readonly wasm: Uint8Array<ArrayBuffer> }> {
  const { entry, role } = source;
  try {
    await Deno.stat(entry);
  } catch (error) {
    throw ioError(`read ${entry}`, error);
  }
  const given = await assets();
  const { code } = await bundleComponent(entry, role, given.library);
  await checkTypes(entry, role, given.types, given.lib);
  const [first, second] = await makeTwice(code, role, given);
  if (!sameBytes(first, second)) {
    throw new MurError("E-BLD-005", `two builds of ${entry} differ; its component is not reproducible`);
  }
  const wasm = withIdentity(restoreVersions(first), source.name, source.version);
  await validate(wasm, entry);
  return { wasm };
}

async function makeTwice(code: string, role: ComponentRole, given: Assets): Promise<[Uint8Array, Uint8Array]> {
  engine ??= given.engine === undefined ? loadEngine() : Promise.resolve(Uint8Array.fromBase64(given.engine));
  const directory = await makeDirectory();
  try {
    for (const [name, text] of Object.entries(given.wit)) {
      const folder = name === "murmur-typescript-guest" ? directory : `${directory}/deps/${name}`;
      await Deno.mkdir(folder, { recursive: true });
      await Deno.writeTextFile(`${folder}/package.wit`, linkedWit(text));
    }
    const { componentize } = await import("componentize-qjs");
    const runtimeBytes = await engine as Parameters<typeof componentize>[0]["runtimeBytes"];
    const make = async () => {
      try {
        return (await componentize({ witPath: directory, world: role, jsSource: code, runtimeBytes })).component;
      } catch (error) {
        throw new MurError("E-BLD-005", `no component could be made: ${reasonOf(error)}`, { cause: error });
      }
    };
    return await Promise.all([make(), make()]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

async function makeDirectory(): Promise<string> {
  try {
    return await Deno.makeTempDir({ prefix: "mur-build-" });
  } catch (error) {
    throw ioError("make a temporary directory", error);
  }
}

/** Has the component read by the transpiler that will load it. */
async function validate(wasm: Uint8Array<ArrayBuffer>, entry: string): Promise<void> {
  const { $init, generate } = await import("@bytecodealliance/jco-transpile/component");
  await $init;
  try {
    generate(wasm, { name: "component", instantiation: { tag: "async" }, noTypescript: true, noNodejsCompat: true });
  } catch (error) {
    throw new MurError("E-BLD-005", `the component of ${entry} is not valid: ${reasonOf(error)}`, { cause: error });
  }
}
