/**
 * Bundles `mur` into `dist/mur/`: few files, loaded lazily, browser builds of libraries so that nothing on the start-up
 * path touches a `node:` module. Benchmarks run this form.
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

/** Makes the bundle and answers the path of its entry. */
export async function bundleMur(): Promise<string> {
  await Deno.remove(OUTPUT, { recursive: true }).catch(() => {});
  await Deno.mkdir(OUTPUT, { recursive: true });
  const entry = `${ROOT}/dist/mur_entry.ts`;
  // The entry answers the version by itself and loads nothing else for it.
  await Deno.writeTextFile(
    entry,
    `if (Deno.args.length === 1 && Deno.args[0] === "--version") console.log(${JSON.stringify(`mur ${VERSION}`)});
else (await import("./mur_program.ts")).start(import.meta.url);
`,
  );
  await Deno.writeTextFile(
    `${ROOT}/dist/mur_program.ts`,
    `import { hiddenModeOf, setEmbeddedPrograms } from "../base/program.ts";
export async function start(bundle: string): Promise<void> {
  const mode = hiddenModeOf(Deno.args);
  if (mode === "component-host") return void await import("../runtime/component/host/main.ts");
  setEmbeddedPrograms({
    componentHost: ${JSON.stringify(await componentHostScript())},
    confineHelper: ${JSON.stringify(await confineHelper())},
    bundle,
  });
  if (mode === "translate-component") await import("../runtime/component/translate_main.ts");
  else Deno.exit(await (await import("../cli/main.ts")).main(Deno.args));
}
`,
  );
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "bundle",
      "--quiet",
      "--platform=browser",
      "--code-splitting",
      ...EXTERNAL.flatMap((name) => ["--external", name]),
      "--external",
      "node:*",
      `--outdir=${OUTPUT}`,
      entry,
    ],
    cwd: ROOT,
    stderr: "piped",
  }).output();
  if (!success) throw new Error(`the bundle cannot be made: ${new TextDecoder().decode(stderr)}`);
  await loadLazily(OUTPUT);
  await cachePackages();
  return `${OUTPUT}/mur_entry.js`;
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
 * Hides the specifiers of dynamic imports: Deno loads and parses every module it can see at start-up, those that are
 * imported only when needed too.
 */
async function loadLazily(directory: string): Promise<void> {
  for await (const { name } of Deno.readDir(directory)) {
    if (!name.endsWith(".js")) continue;
    const path = `${directory}/${name}`;
    const code = await Deno.readTextFile(path);
    await Deno.writeTextFile(
      path,
      code.replace(/\bimport\("(\.\/[^"]+)"\)/g, "import(new URL($1, import.meta.url).href)".replace("$1", '"$1"')),
    );
  }
}

if (import.meta.main) console.log(await bundleMur());
