/**
 * Fails on an import against the arrows between the rooms, on a cycle between modules, and on a test or script imported
 * by the product (design: base <- artifact <- sandbox, planes <- runtime <- cli; roost and toolchain see base and
 * artifact only).
 *
 * Usage: `deno task check:layers`
 *
 * @module
 */

/** Which rooms a room may import from, itself aside. Rooms that are not listed are free to import anything. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  base: [],
  artifact: ["base"],
  sandbox: ["base", "artifact"],
  planes: ["base", "artifact"],
  toolchain: ["base", "artifact"],
  roost: ["base", "artifact"],
  runtime: ["base", "artifact", "sandbox", "planes"],
  cli: ["base", "artifact", "sandbox", "planes", "runtime", "toolchain"],
  components: [],
  guest: [],
};

/** One relative import of a module. */
export interface ModuleImport {
  readonly from: string;
  readonly to: string;
  /** Loaded when first needed: it counts for the arrows, not for cycles at load time. */
  readonly dynamic: boolean;
  readonly typeOnly: boolean;
}

const STATIC_IMPORT = /^\s*(?:import|export)\s+(type\s+)?(?:[\w*{}\s,$]+?\s+from\s+)?["']([^"']+)["']/gm;
const DYNAMIC_IMPORT = /\bimport\(\s*["']([^"']+)["']\s*\)/g;

/** Resolves a relative specifier against the importing module, both as paths relative to the repository. */
export function resolveSpecifier(from: string, specifier: string): string {
  const parts = from.split("/").slice(0, -1);
  for (const part of specifier.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== ".") parts.push(part);
  }
  return parts.join("/");
}

/** The relative imports in a module's text. */
export function importsOf(path: string, source: string): ModuleImport[] {
  // Imports inside comments (examples in documentation) and template texts are no imports of the module.
  const code = source.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
  const found: ModuleImport[] = [];
  for (const match of code.matchAll(STATIC_IMPORT)) {
    const specifier = match[2]!;
    if (specifier.startsWith(".")) {
      found.push({
        from: path,
        to: resolveSpecifier(path, specifier),
        dynamic: false,
        typeOnly: match[1] !== undefined,
      });
    }
  }
  for (const match of code.matchAll(DYNAMIC_IMPORT)) {
    const specifier = match[1]!;
    if (specifier.startsWith(".")) {
      found.push({ from: path, to: resolveSpecifier(path, specifier), dynamic: true, typeOnly: false });
    }
  }
  return found;
}

/** What is wrong with the imports, one sentence each. */
export function layerFaults(imports: readonly ModuleImport[]): string[] {
  const faults: string[] = [];
  for (const { from, to } of imports) {
    const room = from.split("/")[0]!;
    const target = to.split("/")[0]!;
    const isTest = from.endsWith("_test.ts") || room === "tests";
    if (isTest) continue;
    if (to.endsWith("_test.ts") || target === "tests") {
      faults.push(`${from} imports the test ${to}`);
      continue;
    }
    const allowed = MAY_IMPORT[room];
    if (allowed !== undefined && target !== room && !allowed.includes(target)) {
      faults.push(`${from} imports ${to}: ${room} may import ${allowed.join(", ") || "nothing"}`);
    }
  }
  return [...faults, ...cycles(imports)];
}

function cycles(imports: readonly ModuleImport[]): string[] {
  const edges = new Map<string, string[]>();
  for (const { from, to, dynamic, typeOnly } of imports) {
    if (dynamic || typeOnly) continue;
    edges.set(from, [...(edges.get(from) ?? []), to]);
  }
  const state = new Map<string, "open" | "done">();
  const faults: string[] = [];
  const visit = (module: string, path: readonly string[]) => {
    state.set(module, "open");
    for (const next of edges.get(module) ?? []) {
      if (state.get(next) === "open") {
        const start = path.indexOf(next);
        faults.push(`import cycle: ${[...path.slice(start), next].join(" -> ")}`);
      } else if (state.get(next) === undefined) {
        visit(next, [...path, next]);
      }
    }
    state.set(module, "done");
  };
  for (const module of edges.keys()) {
    if (state.get(module) === undefined) visit(module, [module]);
  }
  return faults;
}

/** Paths of the modules below a directory, relative to it. */
export async function* modules(root: string, below = ""): AsyncGenerator<string> {
  for await (const entry of Deno.readDir(`${root}/${below}`)) {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory && !["dist", "node_modules", ".git", "coverage", "workdir"].includes(entry.name)) {
      yield* modules(root, path);
    } else if (entry.isFile && entry.name.endsWith(".ts")) {
      yield path;
    }
  }
}

if (import.meta.main) {
  const root = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
  const imports: ModuleImport[] = [];
  let count = 0;
  for await (const path of modules(root)) {
    count++;
    imports.push(...importsOf(path, await Deno.readTextFile(`${root}/${path}`)));
  }
  const faults = layerFaults(imports);
  for (const fault of faults) console.error(fault);
  if (faults.length > 0) Deno.exit(1);
  console.log(`${count} modules, ${imports.length} imports: all follow the layers`);
}
