/**
 * Bundles `mur` into a folder: the entry, the program in one file, and the tokenizer's table, which only a count loads.
 * Every further file on the start-up path would cost about half a millisecond; what a command does not need is in the one
 * file, but evaluated only when it is imported. Browser builds of libraries, so that nothing on the path touches a `node:`
 * module. Beside them lies what the program carries: the containment helper, and what `mur build` and the translator need.
 *
 * Usage: `deno run -A scripts/bundle.ts` makes `dist/mur/` for this machine, which benchmarks run.
 *
 * @module
 */
import { VERSION } from "../base/version.ts";
import { CARRIED_HELPER, checkoutHelper } from "../sandbox/confine_helper.ts";
import { componentHostScript } from "../runtime/component/host_program.ts";
import { CARRIED_ASSETS, collectAssets } from "../toolchain/assets.ts";
import { hostNativePackages, type NativePackages, TOOLCHAIN_MODULES, writeToolchain } from "./toolchain_files.ts";

const ROOT = decodeURIComponent(new URL("..", import.meta.url).pathname).replace(/\/$/, "");

/** Packages of `mur build` and the translator, imported from beside the bundle. */
const TOOLCHAIN = Object.keys(TOOLCHAIN_MODULES);

/** The tokenizer's table, a module of its own. */
const TABLE = "cl100k_table";

/** The list of running capsules, which has to be there at once: a small program of its own. */
const LIST = "mur_ps";

/** Where a bundle is made, and for which machine. */
export interface BundleOptions {
  /** Replaced when it is there. */
  readonly folder: string;
  /** Path of `mur-confine`; `null` where there is none. */
  readonly helper: string | null;
  readonly native: NativePackages;
}

/** Makes the bundle and answers the path of its entry. */
export async function bundleMur(options?: BundleOptions): Promise<string> {
  const { folder, helper, native } = options ??
    { folder: `${ROOT}/dist/mur`, helper: await checkoutHelper(), native: await hostNativePackages() };
  await Deno.remove(folder, { recursive: true }).catch(() => {});
  await Deno.mkdir(folder, { recursive: true });
  const program = `${ROOT}/dist/mur_program.ts`;
  await Deno.writeTextFile(
    program,
    `import { hiddenModeOf, setEmbeddedPrograms } from "../base/program.ts";
const componentHost = ${JSON.stringify(await componentHostScript())};
export async function start(bundle: string): Promise<void> {
  const mode = hiddenModeOf(Deno.args);
  if (mode === "component-host") return void await import("../runtime/component/host/main.ts");
  setEmbeddedPrograms({ componentHost, bundle });
  if (mode === "translate-component") return void await import("../runtime/component/translate_main.ts");
  // The first process of a namespace hands its place on before it starts anything.
  if (Deno.args[0] === "run" && Deno.pid !== 1) {
    const { confineHelper } = await import("../sandbox/confine_helper.ts");
    const { startHostAhead } = await import("../runtime/component/host_ahead.ts");
    // Why there is no helper is told by whoever needs it; without one nothing is started.
    const helper = await confineHelper().catch(() => null);
    if (helper !== null) startHostAhead({ confineHelper: helper, hostScript: componentHost });
  }
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
  await bundle(folder, [program], [...TOOLCHAIN, "node:*", `*/${TABLE}.ts`]);
  await bundle(folder, [list], []);
  await bundle(folder, [`${ROOT}/runtime/agent/${TABLE}.ts`], []);
  await importFromBeside(`${folder}/mur_program.js`, {
    [`./${TABLE}.ts`]: `${TABLE}.js`,
    ...TOOLCHAIN_MODULES,
  });
  const entry = `${folder}/mur_entry.js`;
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
  if (helper !== null) {
    await Deno.copyFile(helper, `${folder}/${CARRIED_HELPER}`);
    await Deno.chmod(`${folder}/${CARRIED_HELPER}`, 0o755);
  }
  await writeToolchain(folder, native);
  await Deno.writeTextFile(`${folder}/${CARRIED_ASSETS}`, JSON.stringify(await collectAssets(true)));
  return entry;
}

/** Modules that the daemon loads when it decides, by specifiers it computes. */
const ROOST_LATER = ["open_referee", "find_artifact"];

/** Makes the bundle of `mur-roost` in a folder and answers the path of its entry. */
export async function bundleRoost(folder: string): Promise<string> {
  await Deno.remove(folder, { recursive: true }).catch(() => {});
  await Deno.mkdir(folder, { recursive: true });
  const modules = ["main", ...ROOST_LATER].map((name) => `${ROOT}/roost/${name}.ts`);
  await bundle(folder, modules, ["node:*"]);
  const pending = new Set(ROOST_LATER);
  for await (const { name } of Deno.readDir(folder)) {
    let code = await Deno.readTextFile(`${folder}/${name}`);
    for (const later of ROOST_LATER) {
      const written = `new URL("./${later}.ts",import.meta.url)`;
      if (!code.includes(written)) continue;
      code = code.replaceAll(written, `new URL("./${later}.js",import.meta.url)`);
      pending.delete(later);
    }
    await Deno.writeTextFile(`${folder}/${name}`, code);
  }
  if (pending.size > 0) throw new Error(`mur-roost does not load ${[...pending].join(", ")} where it should`);
  return `${folder}/main.js`;
}

/** Bundles modules, and what they import, into a folder; what several of them import is one module of its own. */
async function bundle(folder: string, entries: readonly string[], external: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "bundle",
      "--quiet",
      "--minify",
      "--platform=browser",
      ...external.flatMap((name) => ["--external", name]),
      ...(entries.length > 1 ? ["--code-splitting"] : []),
      `--outdir=${folder}`,
      ...entries,
    ],
    cwd: ROOT,
    stderr: "piped",
  }).output();
  if (!success) throw new Error(`the bundle cannot be made: ${new TextDecoder().decode(stderr)}`);
}

/**
 * Makes a bundle import modules from beside itself, by specifiers it computes: Deno loads and parses every module it can
 * see at start-up, those that are imported only when needed too.
 */
async function importFromBeside(path: string, modules: Readonly<Record<string, string>>): Promise<void> {
  let code = await Deno.readTextFile(path);
  for (const [specifier, file] of Object.entries(modules)) {
    const written = `import(${JSON.stringify(specifier)})`;
    if (!code.includes(written)) throw new Error(`the bundle does not import ${specifier} where it should`);
    code = code.replaceAll(written, `import(new URL("./${file}",import.meta.url).href)`);
  }
  await Deno.writeTextFile(path, code);
}

if (import.meta.main) console.log(await bundleMur());
