/**
 * Bundles the component host of a checkout and writes the script to standard output. A process of its own, without the
 * caller's environment: the bundler hands its own on to a helper (spec components 3.9).
 *
 * @module
 */
const FOLDER = decodeURIComponent(new URL(".", import.meta.url).pathname);

const { build, stop } = await import("esbuild");
try {
  const { outputFiles } = await build({
    entryPoints: [`${FOLDER}host/main.ts`],
    // Comments name the files relative to it, so the script is the same wherever the checkout lies.
    absWorkingDir: FOLDER,
    bundle: true,
    write: false,
    format: "iife",
    platform: "neutral",
    target: "esnext",
    legalComments: "none",
    // Read and parsed by every process that starts.
    minify: true,
  });
  await new Blob([outputFiles[0]!.text]).stream().pipeTo(Deno.stdout.writable);
} finally {
  await stop();
}
