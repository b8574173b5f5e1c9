/**
 * Translates a component into glue code and core modules with `jco`. Loads the transpiler (about half a second and 100
 * MB), so it runs in a process of its own: {@linkcode serveTranslation} (spec components 3.9).
 *
 * @module
 */
import { componentNames } from "../../artifact/component_names.ts";
import { sha256Hex } from "../../artifact/sha256.ts";
import { recordDenials } from "./core_module.ts";
import { encodeTranslation, type Translation } from "./translation.ts";
import { REFUSED, TRANSLATED } from "./translation_version.ts";

/** The bytes are no component that can be run. */
export class TranslationError extends Error {
  override readonly name = "TranslationError";
}

const NAME = "component";
const ENTRY = "export function instantiate(";

/** Turns the module text into a function body that returns its entry. */
function toFunctionBody(text: string): string {
  const utilities = text.lastIndexOf("\nexport const _util");
  const body = utilities === -1 ? text : text.slice(0, utilities);
  const parts = body.split(ENTRY);
  if (parts.length !== 2 || /^\s*(import|export)\b/m.test(parts[1]!)) {
    throw new TranslationError("the transpiler wrote code of an unknown form");
  }
  // In parentheses the engine compiles it with what surrounds it, and does not read its megabyte a second time.
  return `${parts[0]}return (function instantiate(${parts[1]!.trimEnd().replace(/;$/, "")});`;
}

/** The import names that the code takes functions or resources from. */
function usedImportsOf(text: string): string[] {
  const names = new Set<string>();
  for (const match of text.matchAll(/(?<![\w$.])imports(?:\.([\w$]+)|\['([^']+)'\])/g)) {
    names.add(match[1] ?? match[2]!);
  }
  return [...names].sort();
}

/**
 * Translates one component.
 *
 * @throws {TranslationError} with the reason.
 */
export async function translate(bytes: Uint8Array<ArrayBuffer>): Promise<Translation> {
  const { $init, generate } = await import("@bytecodealliance/jco-transpile/component");
  await $init;
  const names = componentNames(bytes);
  if (names === null) throw new TranslationError("its imports and exports cannot be read");
  let files: [string, Uint8Array][];
  try {
    files = generate(bytes, {
      name: NAME,
      noTypescript: true,
      noNodejsCompat: true,
      base64Cutoff: 0,
      instantiation: { tag: "sync" },
      asyncMode: { tag: "sync" },
      // The engine has them; without it the code would reach the other memory through JavaScript.
      multiMemory: true,
      map: [],
    }).files;
  } catch (error) {
    throw new TranslationError(reasonOf(error));
  }
  const code = files.find(([name]) => name === `${NAME}.js`)?.[1];
  if (code === undefined) throw new TranslationError("the transpiler wrote no code");
  const text = new TextDecoder().decode(code);
  const modules = [];
  for (const [name, raw] of files) {
    if (!name.endsWith(".wasm")) continue;
    const recorded = new Uint8Array(recordDenials(raw));
    // Growth is bounded without the record as well; a module that the rewriting broke is not.
    const module = WebAssembly.validate(recorded) ? recorded : new Uint8Array(raw);
    if (!WebAssembly.validate(module)) {
      throw new TranslationError(`its core module ${name} uses features this engine does not have`);
    }
    modules.push({ name, bytes: module, sha256: await sha256Hex(module) });
  }
  return {
    imports: [...names.imports].sort(),
    exports: [...names.exports].sort(),
    usedImports: usedImportsOf(text),
    glue: new TextEncoder().encode(toFunctionBody(text)),
    modules,
  };
}

function reasonOf(error: unknown): string {
  const payload = typeof error === "object" && error !== null ? (error as { payload?: unknown }).payload : undefined;
  const text = typeof payload === "string" ? payload : error instanceof Error ? error.message : String(error);
  // The transpiler's chain of causes, its first lines.
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "").slice(0, 4).join("; ");
}

/**
 * Reads a component from standard input and writes its translation, or the reason why there is none, to standard
 * output: one byte, then the encoded translation or the reason as UTF-8.
 */
export async function serveTranslation(): Promise<void> {
  const bytes = new Uint8Array(await new Response(Deno.stdin.readable).arrayBuffer());
  let answer: Uint8Array<ArrayBuffer>;
  let kind: number = TRANSLATED;
  try {
    answer = await encodeTranslation(await translate(bytes));
  } catch (error) {
    if (!(error instanceof TranslationError)) throw error;
    kind = REFUSED;
    answer = new TextEncoder().encode(error.message);
  }
  const writer = Deno.stdout.writable.getWriter();
  await writer.write(Uint8Array.of(kind));
  await writer.write(answer);
  await writer.close();
}
