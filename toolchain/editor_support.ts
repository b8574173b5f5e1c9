/**
 * Files that make an editor know what `mur build` knows: declarations of the guest library and a `tsconfig.json` for the
 * folder of an artifact.
 *
 * @module
 */
import { assets, AUTHOR_MODULES } from "./assets.ts";
import { GUEST, guestCompiler, LIBS } from "./type_check.ts";

/** Folder of the declarations beside an author's files. */
export const TYPES_FOLDER = "murmur-types";

/**
 * The files by path, to be written into an artifact's folder. `tsconfig.json` is for a folder that has none.
 */
export async function editorSupport(): Promise<Record<string, string>> {
  const { types, lib } = await assets();
  const { default: ts } = await import("typescript");
  const { options, host } = guestCompiler(ts, types, lib, "/");
  const roots = AUTHOR_MODULES.map((name) => `${GUEST}/${name}.ts`);
  // Everything the global declarations name is emitted too.
  const globals = [...types["globals.d.ts"]?.matchAll(/from "\.\/(\w+\.ts)"/g) ?? []].map(([, name]) =>
    `${GUEST}/${name}`
  );
  const emitting = {
    ...options,
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    outDir: GUEST,
    rootDir: GUEST,
  };
  const program = ts.createProgram([...roots, ...globals, `${GUEST}/globals.d.ts`], emitting, host);
  const files: Record<string, string> = {};
  program.emit(undefined, (path, text) => {
    files[`${TYPES_FOLDER}/${path.slice(path.lastIndexOf("/") + 1)}`] = text.replace(
      /from "(\.\/\w+)\.ts"/g,
      'from "$1"',
    );
  });
  files[`${TYPES_FOLDER}/globals.d.ts`] = (types["globals.d.ts"] ?? "").replace(
    /from "(\.\/\w+)\.ts"/g,
    'from "$1"',
  );
  const config = {
    compilerOptions: {
      strict: true,
      noEmit: true,
      target: "ES2025",
      module: "ESNext",
      moduleResolution: "Bundler",
      moduleDetection: "force",
      allowImportingTsExtensions: true,
      isolatedModules: true,
      resolveJsonModule: true,
      types: [],
      lib: LIBS.map((name) => name.replace(/^lib\.|\.d\.ts$/g, "")),
      paths: { "murmur/*": [`./${TYPES_FOLDER}/*.d.ts`] },
    },
    include: ["**/*.ts"],
  };
  files["tsconfig.json"] = `${JSON.stringify(config, null, 2)}\n`;
  return files;
}
