/**
 * Bundles `mur` into `dist/mur/`: the entry, the program in one file, and the tokenizer's table, which only a count loads.
 * Every further file on the start-up path would cost about half a millisecond; what a command does not need is in the one
 * file, but evaluated only when it is imported. Browser builds of libraries, so that nothing on the path touches a `node:`
 * module. Benchmarks run this form.
 *
 * Usage: `deno run -A scripts/bundle.ts`
 *
 * @module
 */
import { VERSION } from "../base/version.ts";
import { confineHelper } from "../sandbox/confine_helper.ts";
import { componentHostScript } from "../runtime/component/host_program.ts";

const ROOT = decodeURIComponent(new URL("..", import.meta.url).pathname).replace(/\/$/, "");
const OUTPUT = `${ROOT}/dist/mur`;

/** Loaded only by `mur build` and by the translator, from the package cache. */
const EXTERNAL = [
  "esbuild",
  "typescript",
  "componentize-qjs",
  "@bytecodealliance/jco-transpile/component",
  "@bytecodealliance/jco-transpile/wasm-tools",
];

/** The tokenizer's table, a module of its own. */
const TABLE = "cl100k_table";

/** The list of running capsules, which has to be there at once: a small program of its own. */
const LIST = "mur_ps";

/** Makes the bundle and answers the path of its entry. */
export async function bundleMur(): Promise<string> {
  await Deno.remove(OUTPUT, { recursive: true }).catch(() => {});
  await Deno.mkdir(OUTPUT, { recursive: true });
  const program = `${ROOT}/dist/mur_program.ts`;
  await Deno.writeTextFile(
    program,
    `import { hiddenModeOf, setEmbeddedPrograms } from "../base/program.ts";
export async function start(bundle: string): Promise<void> {
  const mode = hiddenModeOf(Deno.args);
  if (mode === "component-host") return void await import("../runtime/component/host/main.ts");
  const programs = {
    componentHost: ${JSON.stringify(await componentHostScript())},
    confineHelper: ${JSON.stringify(await confineHelper())},
    bundle,
  };
  setEmbeddedPrograms(programs);
  if (mode === "translate-component") return void await import("../runtime/component/translate_main.ts");
  if (Deno.args[0] === "run") (await import("../runtime/component/host_ahead.ts")).startHostAhead(programs);
  Deno.exit(await (await import("../cli/main.ts")).main(Deno.args));
}
`,
  );
  const list = `${ROOT}/dist/${LIST}.ts`;
  await Deno.writeTextFile(
    list,
    `import { processContext } from "../cli/context.ts";
import { quickPs } from "../cli/quick_ps.ts";
export async function start(): Promise<void> {
  const status = await quickPs(Deno.args, processContext());
  if (status !== null) Deno.exit(status);
}
`,
  );
  await bundle(program, [...EXTERNAL, "node:*", `*/${TABLE}.ts`]);
  await bundle(list, []);
  await bundle(`${ROOT}/runtime/agent/${TABLE}.ts`, []);
  await loadLazily(`${OUTPUT}/mur_program.js`);
  const entry = `${OUTPUT}/mur_entry.js`;
  // The entry answers the version by itself and loads nothing else for it, and little for the list of what runs. It waits for the program, which ends the process:
  // what Deno does once a main module is through takes time and is of no use.
  await Deno.writeTextFile(
    entry,
    `if (Deno.args.length === 1 && Deno.args[0] === "--version") console.log(${JSON.stringify(`mur ${VERSION}`)});
else {
  if (Deno.args[0] === "ps") await (await import(new URL("./${LIST}.js", import.meta.url).href)).start();
  await (await import(new URL("./mur_program.js", import.meta.url).href)).start(import.meta.url);
}
`,
  );
  await cachePackages();
  return entry;
}

async function bundle(entry: string, external: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "bundle",
      "--quiet",
      "--minify",
      "--platform=browser",
      ...external.flatMap((name) => ["--external", name]),
      `--outdir=${OUTPUT}`,
      entry,
    ],
    cwd: ROOT,
    stderr: "piped",
  }).output();
  if (!success) throw new Error(`the bundle cannot be made: ${new TextDecoder().decode(stderr)}`);
}

/** A bundle has no lock: what it takes from the package cache must be there under the versions it names. */
async function cachePackages(): Promise<void> {
  const { imports } = JSON.parse(await Deno.readTextFile(`${ROOT}/deno.json`)) as { imports: Record<string, string> };
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["cache", "--quiet", "--no-config", ...EXTERNAL.map((name) => imports[name]!)],
    cwd: OUTPUT,
    stderr: "piped",
  }).output();
  if (!success) throw new Error(`the bundle's packages cannot be cached: ${new TextDecoder().decode(stderr)}`);
}

/**
 * Hides the specifier of the table: Deno loads and parses every module it can see at start-up, those that are imported
 * only when needed too.
 */
async function loadLazily(path: string): Promise<void> {
  const code = await Deno.readTextFile(path);
  const [before, after, ...more] = code.split(`import("./${TABLE}.ts")`);
  if (after === undefined || more.length > 0) throw new Error("the bundle does not load the table where it should");
  await Deno.writeTextFile(path, `${before}import(new URL("./${TABLE}.js",import.meta.url).href)${after}`);
}

if (import.meta.main) console.log(await bundleMur());
