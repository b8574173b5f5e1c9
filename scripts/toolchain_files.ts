/**
 * The files `mur build` needs from npm packages, laid out so that a program in one file finds them beside itself: the
 * TypeScript compiler, esbuild with its program, the componentizer's addon, and the transpiler with its WASM (design:
 * Dependencies). The program imports them by their place, so no package cache and no `node_modules` is needed.
 *
 * @module
 */
import { createRequire } from "node:module";
import { build, type BuildOptions, type Plugin, stop } from "esbuild";
import { bindingFile } from "../toolchain/engine.ts";
import { packageFile } from "../toolchain/package_file.ts";

/** Where each package's module lies below the program's folder, by the name it is imported under. */
export const TOOLCHAIN_MODULES: Readonly<Record<string, string>> = {
  "@bytecodealliance/jco-transpile/component": "toolchain/transpiler.js",
  "componentize-qjs": "toolchain/componentize_qjs.cjs",
  "esbuild": "toolchain/esbuild.cjs",
  "typescript": "toolchain/typescript.cjs",
};

/** Name of esbuild's own program beside its module. */
const ESBUILD_PROGRAM = "esbuild";

/** The packages of one platform that hold machine code. */
export interface NativePackages {
  /** esbuild's program. */
  readonly esbuild: string;
  /** The addon of `componentize-qjs`. */
  readonly componentizer: string;
}

/**
 * Those of this machine, out of the package cache.
 *
 * @throws {Error} When a package is not there.
 */
export async function hostNativePackages(): Promise<NativePackages> {
  const { resolve } = createRequire(packageFile("esbuild"));
  const arch = Deno.build.arch === "aarch64" ? "arm64" : "x64";
  return {
    esbuild: resolve(`@esbuild/${Deno.build.os}-${arch}/bin/esbuild`),
    componentizer: await bindingFile(),
  };
}

const OPTIONS = {
  bundle: true,
  // The folder these lie in on one machine must not show in the output.
  absWorkingDir: "/",
  legalComments: "none",
  logLevel: "error",
  metafile: true,
  minify: true,
  platform: "node",
  target: "esnext",
} as const satisfies BuildOptions;

/** Writes the files below a program's folder, and answers the names of the packages whose text is in them. */
export async function writeToolchain(folder: string, native: NativePackages): Promise<readonly string[]> {
  await Deno.mkdir(`${folder}/toolchain`, { recursive: true });
  const at = (specifier: string) => `${folder}/${TOOLCHAIN_MODULES[specifier]}`;
  const path = (specifier: string) => decodeURIComponent(packageFile(specifier).pathname);
  const inputs = new Set<string>();
  try {
    const compiler = await build({
      ...OPTIONS,
      entryPoints: [path("typescript")],
      outfile: at("typescript"),
      format: "cjs",
    });
    // It looks for its program where a variable says, or in node_modules; ours is beside it, whatever is set.
    const looked = "process.env.ESBUILD_BINARY_PATH || ESBUILD_BINARY_PATH";
    const [before, after, ...more] = (await Deno.readTextFile(path("esbuild"))).split(looked);
    if (after === undefined || more.length > 0) throw new Error("esbuild does not look for its program as it did");
    const beside = `require("node:path").join(__dirname, ${JSON.stringify(ESBUILD_PROGRAM)})`;
    await Deno.writeTextFile(at("esbuild"), `${before}${beside}${after}`);
    const transpiler = path("@bytecodealliance/jco-transpile/component");
    const translator = await build({
      ...OPTIONS,
      entryPoints: [transpiler],
      outfile: at("@bytecodealliance/jco-transpile/component"),
      format: "esm",
      plugins: [browserShim(transpiler)],
    });
    for (const { metafile } of [compiler, translator]) for (const file in metafile.inputs) inputs.add(file);
    const modules = transpiler.slice(0, transpiler.lastIndexOf("/"));
    for (const name of ["core", "core2"]) {
      const file = `js-component-bindgen-component.${name}.wasm`;
      await Deno.copyFile(`${modules}/${file}`, `${folder}/toolchain/${file}`);
    }
  } finally {
    await stop();
  }
  await Deno.writeTextFile(
    at("componentize-qjs"),
    `exports.componentize = require("./componentize_qjs.node").componentize;\n`,
  );
  await Deno.copyFile(native.componentizer, `${folder}/toolchain/componentize_qjs.node`);
  await Deno.copyFile(native.esbuild, `${folder}/toolchain/${ESBUILD_PROGRAM}`);
  await Deno.chmod(`${folder}/toolchain/${ESBUILD_PROGRAM}`, 0o755);
  return [...new Set(["componentize-qjs", "esbuild", ...[...inputs].map(packageOf)])];
}

/** The package a file of the package cache belongs to: `…/<name>/<version>/…`. */
function packageOf(file: string): string {
  const [, name] = /\/npm\/[^/]+\/((?:@[^/]+\/)?[^/]+)\//.exec(`/${file}`) ?? [];
  if (name === undefined) throw new Error(`${file} is of no package`);
  return name;
}

/** Resolves the shim a translator is linked with to its browser build, which starts no worker and reads no file. */
function browserShim(file: string): Plugin {
  const { resolve } = createRequire(file);
  return {
    name: "browser shim",
    setup(build) {
      build.onResolve({ filter: /^@bytecodealliance\/preview2-shim\// }, ({ path }) => {
        const [before, after, ...more] = resolve(path).split("/dist/nodejs/");
        if (after === undefined || more.length > 0) return { errors: [{ text: `${path} has no browser build` }] };
        return { path: `${before}/dist/browser/${after}` };
      });
    },
  };
}
