/**
 * Bundling with esbuild: the guest library once, and an author's file together with it. `async` functions are lowered to
 * generators on the library's own `Promise`, since the engine runs no microtasks in a synchronous component.
 *
 * @module
 */
import type * as esbuild from "esbuild";
import { MurError, type SourcePlace } from "../base/errors.ts";
import { packageFile } from "./package_file.ts";

/** Role of a component; each has one fixed world (spec manifest 5.6). */
export type ComponentRole = "tool" | "driver" | "capsule" | "hook";

/** An author's code and everything it imports, ready to become a component. */
export interface Bundle {
  readonly code: string;
}

const OPTIONS = {
  bundle: true,
  write: false,
  format: "esm",
  platform: "neutral",
  mainFields: ["module", "main"],
  target: "es2024",
  supported: { "async-await": false, "async-generator": false, "for-await": false },
  define: { "process.env.NODE_ENV": '"production"' },
  charset: "utf8",
  legalComments: "none",
  logLevel: "silent",
} as const satisfies esbuild.BuildOptions;

/** Interfaces every role imports, by the name the guest library knows them under. */
const COMMON_IMPORTS: Readonly<Record<string, string>> = {
  environment: "wasi:cli/environment",
  stdin: "wasi:cli/stdin",
  stdout: "wasi:cli/stdout",
  stderr: "wasi:cli/stderr",
  monotonicClock: "wasi:clocks/monotonic-clock",
  preopens: "wasi:filesystem/preopens",
  httpTypes: "wasi:http/types",
  outgoingHandler: "wasi:http/outgoing-handler",
  poll: "wasi:io/poll",
  random: "wasi:random/random",
};

/** Interface each role exports. */
const EXPORTED_INTERFACES: Readonly<Record<ComponentRole, string>> = {
  tool: "run",
  driver: "run",
  capsule: "run",
  hook: "lifecycle",
};

/** By name, or as `group.name` where several stand together. */
const ROLE_IMPORTS: Readonly<Record<ComponentRole, Readonly<Record<string, string>>>> = {
  tool: { task: "murmur:task/task", chunks: "murmur:text/chunks" },
  driver: { chunks: "murmur:text/chunks" },
  capsule: { toolRegistry: "murmur:tool-registry/invoke" },
  hook: {
    "hook.inference": "murmur:runtime/inference",
    "hook.tokens": "murmur:runtime/tokens",
    "hook.taskIo": "murmur:task-io/read",
    "hook.conversation": "murmur:conversation/read",
  },
};

const AUTHOR = "murmur:author";

let running = 0;

/** Runs a piece of work with esbuild, whose helper process ends with the last of them. */
async function withEsbuild<T>(work: (build: typeof esbuild) => Promise<T>): Promise<T> {
  const module = await import("esbuild");
  running++;
  try {
    return await work(module);
  } finally {
    if (--running === 0) await module.stop();
  }
}

/** The module a component is made of: installs the host, loads the author's module at the first call. */
function entrySource(role: ComponentRole): string {
  const imports = Object.entries({ ...COMMON_IMPORTS, ...ROLE_IMPORTS[role] }).map(([path, specifier]) => {
    const [group, name = group!] = path.split(".");
    return { group: group === name ? null : group!, name, specifier };
  });
  const single = imports.filter(({ group }) => group === null).map(({ name }) => name);
  const groups = Map.groupBy(imports.filter(({ group }) => group !== null), ({ group }) => group!);
  const grouped = [...groups].map(([group, members]) => `${group}: { ${members.map(({ name }) => name).join(", ")} }`);
  return [
    ...imports.map(({ name, specifier }) => `import * as ${name} from ${JSON.stringify(specifier)};`),
    `import { installGlobals, installHost, ${role}Export } from "murmur:library/library.js";`,
    "installGlobals();",
    // Not at build time: the author's top level may read the clock, files or the environment.
    `export const ${EXPORTED_INTERFACES[role]} = ${role}Export(() => {`,
    `  installHost({ ${[...single, ...grouped].join(", ")} });`,
    `  return import(${JSON.stringify(AUTHOR)});`,
    "});",
  ].join("\n");
}

/** esbuild puts `./` before an entry when its working directory holds a file of that name, though nothing reads that. */
function entryName(path: string): string {
  return path.replace(/^\.\//, "");
}

/** The directory all packages lie in, one folder a name: paths below it are the same on every machine. */
function packageFolder(): string {
  const path = decodeURIComponent(packageFile("whatwg-url-minimum").pathname);
  return path.slice(0, path.indexOf("/whatwg-url-minimum/"));
}

/**
 * Bundles the guest library into one module per entry and their shared chunks.
 *
 * @param sources TypeScript sources of `guest/`, by file name.
 */
export async function bundleLibrary(
  sources: Readonly<Record<string, string>>,
  authorModules: readonly string[],
): Promise<Record<string, string>> {
  const plugin: esbuild.Plugin = {
    name: "guest-library",
    setup(build) {
      build.onResolve({ filter: /.*/ }, (args) => {
        if (args.kind === "entry-point") return { path: entryName(args.path), namespace: "guest" };
        if (args.namespace !== "guest") return undefined;
        if (args.path.startsWith("./")) return { path: args.path.slice(2), namespace: "guest" };
        return { path: decodeURIComponent(packageFile(args.path).pathname) };
      });
      build.onLoad({ filter: /.*/, namespace: "guest" }, (args) => {
        const contents = sources[args.path];
        if (contents === undefined) return { errors: [{ text: `no such module in the guest library: ${args.path}` }] };
        return { contents, loader: "ts", resolveDir: "/" };
      });
    },
  };
  const result = await withEsbuild((esbuild) =>
    esbuild.build({
      ...OPTIONS,
      entryPoints: ["library", ...authorModules].map((name) => ({ in: `${name}.ts`, out: name })),
      outdir: "/guest",
      // Files of packages are named relative to it in the code, and the names of chunks follow from that.
      absWorkingDir: packageFolder(),
      chunkNames: "chunk-[hash]",
      splitting: true,
      plugins: [plugin],
    })
  );
  return Object.fromEntries(result.outputFiles.map((file) => [file.path.replace(/^.*[/\\]/, ""), file.text]));
}

/**
 * Bundles an author's file with the guest library.
 *
 * @param entry Path of the file, as the operator would name it.
 * @throws {MurError} `E-BLD-005` with the place of the first error.
 */
export async function bundleComponent(
  entry: string,
  role: ComponentRole,
  library: Readonly<Record<string, string>>,
): Promise<Bundle> {
  const directory = await Deno.realPath(parentOf(entry));
  const file = entry.slice(entry.lastIndexOf("/") + 1);
  try {
    const result = await withEsbuild((esbuild) =>
      esbuild.build({
        ...OPTIONS,
        entryPoints: ["component"],
        outdir: "/",
        absWorkingDir: directory,
        plugins: [authorPlugin(`${directory}/${file}`, role, library)],
      })
    );
    const output = result.outputFiles[0];
    if (output === undefined) throw new MurError("E-BLD-005", `${entry} gave no output`);
    return { code: output.text };
  } catch (error) {
    throw bundleError(error, entry);
  }
}

function authorPlugin(entry: string, role: ComponentRole, library: Readonly<Record<string, string>>): esbuild.Plugin {
  return {
    name: "author",
    setup(build) {
      build.onResolve(
        { filter: /^(\.\/)?component$/ },
        (args) => args.kind === "entry-point" ? { path: "component", namespace: "component" } : undefined,
      );
      build.onLoad({ filter: /.*/, namespace: "component" }, () => ({ contents: entrySource(role), loader: "js" }));
      build.onResolve({ filter: /^murmur:author$/ }, () => ({ path: entry }));
      build.onResolve({ filter: /^murmur:library\// }, (args) => ({
        path: args.path.slice("murmur:library/".length),
        namespace: "library",
        sideEffects: false,
      }));
      build.onResolve({ filter: /^\.\//, namespace: "library" }, (args) => ({
        path: args.path.slice(2),
        namespace: "library",
        sideEffects: false,
      }));
      build.onResolve({ filter: /^murmur\// }, (args) => {
        const path = `${args.path.slice("murmur/".length)}.js`;
        if (library[path] !== undefined) return { path, namespace: "library", sideEffects: false };
        return { errors: [{ text: `there is no module ${args.path}` }] };
      });
      build.onResolve({ filter: /^(wasi|murmur):/ }, (args) => {
        if (args.namespace === "component") return { path: args.path, external: true };
        return { errors: [{ text: `${args.path} cannot be imported directly; use the modules under murmur/` }] };
      });
      build.onResolve({ filter: /^(node|npm|jsr|https?|data):/ }, (args) => ({
        errors: [{
          text: args.path.startsWith("node:")
            ? `${args.path} is not available: a component runs without Node`
            : `${args.path} is not available: import files beside the entry, or a package of a node_modules folder`,
        }],
      }));
      build.onLoad({ filter: /.*/, namespace: "library" }, (args) => ({
        contents: library[args.path] ?? "",
        loader: "js",
      }));
    },
  };
}

function parentOf(path: string): string {
  const slash = path.lastIndexOf("/");
  return slash === -1 ? "." : slash === 0 ? "/" : path.slice(0, slash);
}

function bundleError(error: unknown, entry: string): MurError {
  if (error instanceof MurError) return error;
  const errors = typeof error === "object" && error !== null && "errors" in error
    ? error.errors as esbuild.Message[]
    : [];
  const first = errors[0];
  if (first === undefined) {
    return new MurError("E-BLD-005", `${entry} does not bundle: ${error instanceof Error ? error.message : error}`);
  }
  // An author's file is loaded by the first call, not before, so the call is where to wait.
  const text = first.text.startsWith("Top-level await is not available")
    ? "top-level await is not available in a component; await inside the function that is called"
    : first.text;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : "";
  const { location } = first;
  if (location === null) return new MurError("E-BLD-005", `${entry} does not bundle: ${text}${more}`);
  const directory = parentOf(entry);
  const place: SourcePlace = {
    file: location.file.startsWith("/") || directory === "." ? location.file : `${directory}/${location.file}`,
    line: location.line,
    // esbuild counts UTF-8 bytes from 0.
    column: columnOf(location.lineText, location.column),
    text: location.lineText,
  };
  return new MurError("E-BLD-005", `${entry} does not bundle: ${text}${more}`, { place });
}

function columnOf(line: string, bytes: number): number {
  const encoded = new TextEncoder().encode(line).subarray(0, bytes);
  return new TextDecoder().decode(encoded).length + 1;
}
