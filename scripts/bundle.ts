/**
 * Bundles `mur` into `dist/mur/`: few files, loaded lazily, browser builds of libraries so that nothing on the start-up
 * path touches a `node:` module. Benchmarks run this form.
 *
 * Usage: `deno run -A scripts/bundle.ts`
 *
 * @module
 */
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
  await Deno.writeTextFile(
    entry,
    `import { hiddenModeOf, setEmbeddedPrograms } from "../base/program.ts";
setEmbeddedPrograms({
  componentHost: ${JSON.stringify(await componentHostScript())},
  confineHelper: ${JSON.stringify(await confineHelper())},
  bundle: import.meta.url,
});
if (hiddenModeOf(Deno.args) === "translate-component") {
  await import("../runtime/component/translate_main.ts");
} else {
  const { main } = await import("../cli/main.ts");
  Deno.exit(await main(Deno.args));
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
  return `${OUTPUT}/mur_entry.js`;
}

if (import.meta.main) console.log(await bundleMur());
