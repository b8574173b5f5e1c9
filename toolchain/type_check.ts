/**
 * Type checking of an author's file with the TypeScript compiler: against ECMAScript and the guest library, not the DOM.
 *
 * @module
 */
import type ts from "typescript";
import { ioError, MurError, type SourcePlace } from "../base/errors.ts";
import type { ComponentRole } from "./bundle.ts";
import { defaultExportProblem } from "./default_export.ts";

/** Where the guest library's sources appear to the compiler. */
const GUEST = "/murmur:guest";
const LIB = "/murmur:lib";

/** The language's own library, without the DOM. */
const LIBS: readonly string[] = ["lib.es2025.d.ts", "lib.esnext.disposable.d.ts"];

/**
 * Text of one of TypeScript's declaration files as it is true in a component: `Intl` keeps its types, which other
 * declarations name, but has no values, and there is no `Atomics`.
 */
export function guestLib(text: string): string {
  const kept: string[] = [];
  let inIntl = false;
  // The line that ends the value being left out.
  let until: RegExp | null = null;
  for (const line of text.split(/\r?\n/)) {
    if (until !== null) {
      if (until.test(line)) until = null;
      continue;
    }
    if (/^declare namespace Intl \{/.test(line)) inIntl = true;
    else if (inIntl && line.startsWith("}")) inIntl = false;
    if (/^declare var Atomics:/.test(line)) continue;
    if (inIntl && /^ {4}(?:var|const|function) /.test(line)) {
      if (!line.endsWith(";")) until = /^ {4}\S.*;$/;
      continue;
    }
    kept.push(line);
  }
  return kept.join("\n");
}

// The compiler takes every `\` for a separator. To the file system it is a letter like any other, so it goes through the
// compiler as one that no name has.
const BACKSLASH = "\u{10f05c}";

/** A path of the file system as the compiler is given it. */
function compilerPath(path: string): string {
  return path.replaceAll("\\", BACKSLASH);
}

/** A path or a message of the compiler with the paths of the file system. */
function withFilePaths(text: string): string {
  return text.replaceAll(BACKSLASH, "\\");
}

async function realPath(entry: string): Promise<string> {
  try {
    return await Deno.realPath(entry);
  } catch (error) {
    throw ioError(`read ${entry}`, error);
  }
}

/** Options and files of a compiler that knows ECMAScript and the guest library, and nothing else. */
function guestCompiler(
  typescript: typeof ts,
  types: Readonly<Record<string, string>>,
  lib: Readonly<Record<string, string>>,
  directory: string,
): { readonly options: ts.CompilerOptions; readonly host: ts.CompilerHost } {
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    allowJs: true,
    checkJs: false,
    esModuleInterop: true,
    resolveJsonModule: true,
    allowImportingTsExtensions: true,
    isolatedModules: true,
    module: typescript.ModuleKind.ESNext,
    moduleResolution: typescript.ModuleResolutionKind.Bundler,
    moduleDetection: typescript.ModuleDetectionKind.Force,
    target: typescript.ScriptTarget.ES2025,
    types: [],
    lib: [...LIBS],
  };

  const virtual = (path: string): string | undefined => {
    if (path.startsWith(`${GUEST}/`)) return types[path.slice(GUEST.length + 1)];
    if (!path.startsWith(`${LIB}/`)) return undefined;
    const text = lib[path.slice(LIB.length + 1)];
    return text === undefined ? undefined : guestLib(text);
  };
  const { sys } = typescript;
  const host: ts.CompilerHost = {
    ...typescript.createCompilerHost(options),
    directoryExists: (path) => sys.directoryExists(withFilePaths(path)),
    getDirectories: (path) => sys.getDirectories(withFilePaths(path)).map(compilerPath),
    realpath: (path) => compilerPath(sys.realpath?.(withFilePaths(path)) ?? withFilePaths(path)),
    getDefaultLibFileName: () => `${LIB}/lib.es2025.d.ts`,
    getDefaultLibLocation: () => LIB,
    getCurrentDirectory: () => directory,
    fileExists: (path) =>
      virtual(path) !== undefined || (!path.startsWith("/murmur:") && sys.fileExists(withFilePaths(path))),
    readFile: (path) => virtual(path) ?? sys.readFile(withFilePaths(path)),
    getSourceFile: (path, languageVersion) => {
      const text = virtual(path) ?? sys.readFile(withFilePaths(path));
      return text === undefined ? undefined : typescript.createSourceFile(path, text, languageVersion, true);
    },
    resolveModuleNameLiterals: (literals, containing, redirected, compilerOptions) =>
      literals.map(({ text }) => {
        const name = text.startsWith("murmur/")
          ? `${text.slice("murmur/".length)}.ts`
          : containing.startsWith(GUEST) && text.startsWith("./")
          ? text.slice(2)
          : null;
        if (name !== null) {
          if (types[name] === undefined) return { resolvedModule: undefined };
          return {
            resolvedModule: {
              resolvedFileName: `${GUEST}/${name}`,
              extension: name.endsWith(".d.ts") ? typescript.Extension.Dts : typescript.Extension.Ts,
              isExternalLibraryImport: false,
            },
          };
        }
        return typescript.resolveModuleName(text, containing, compilerOptions, host, undefined, redirected);
      }),
  };
  return { options, host };
}

/**
 * Checks the types of an entry file and everything it imports beside it, and that its default export is what its role
 * needs.
 *
 * @param entry Path of the file, as the operator would name it.
 * @throws {MurError} `E-BLD-005` with the place of the first error.
 */
export async function checkTypes(
  entry: string,
  role: ComponentRole,
  types: Readonly<Record<string, string>>,
  lib: Readonly<Record<string, string>>,
): Promise<void> {
  const { default: ts } = await import("typescript");
  const absolute = compilerPath(await realPath(entry));
  const directory = absolute.slice(0, absolute.lastIndexOf("/"));
  const { options, host } = guestCompiler(ts, types, lib, directory);
  const program = ts.createProgram([absolute, `${GUEST}/globals.d.ts`], options, host);
  const problems = [...program.getOptionsDiagnostics()];
  for (const file of program.getSourceFiles()) {
    if (file.fileName.startsWith("/murmur:") || program.isSourceFileFromExternalLibrary(file)) continue;
    problems.push(...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file));
  }
  const [first] = problems.filter((problem) => problem.category === ts.DiagnosticCategory.Error);
  if (first === undefined) {
    const file = program.getSourceFile(absolute);
    if (file !== undefined) requireDefaultExport(ts, program, file, role, entry, directory);
    return;
  }
  const count = problems.length;
  const text = withFilePaths(ts.flattenDiagnosticMessageText(first.messageText, "\n  "));
  const message = `${entry} does not type-check: ${text} (TS${first.code})${
    count > 1 ? ` (and ${count - 1} more)` : ""
  }`;
  const place = first.file === undefined ? undefined : placeOf(first.file, first.start ?? 0, entry, directory);
  throw new MurError("E-BLD-005", message, place === undefined ? {} : { place });
}

function requireDefaultExport(
  typescript: typeof ts,
  program: ts.Program,
  file: ts.SourceFile,
  role: ComponentRole,
  entry: string,
  directory: string,
): void {
  const isLibrary = (each: ts.SourceFile) => each.fileName.startsWith(`${GUEST}/`);
  const found = defaultExportProblem(typescript, program, file, role, isLibrary);
  if (found === null) return;
  const { problem, hint, node } = found;
  throw new MurError("E-BLD-005", `${entry} ${problem}`, {
    hint,
    ...(node === null ? {} : { place: placeOf(node.getSourceFile(), node.getStart(), entry, directory) }),
  });
}

function placeOf(file: ts.SourceFile, start: number, entry: string, directory: string): SourcePlace {
  const { line, character } = file.getLineAndCharacterOfPosition(start);
  const parent = entry.includes("/") ? entry.slice(0, entry.lastIndexOf("/") + 1) : "";
  const shown = file.fileName.startsWith(`${directory}/`)
    ? `${parent}${withFilePaths(file.fileName.slice(directory.length + 1))}`
    : withFilePaths(file.fileName);
  return { file: shown, line: line + 1, column: character + 1, text: file.text.split(/\r?\n/)[line] ?? "" };
}
