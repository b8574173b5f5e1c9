/**
 * Starting this very program again as a helper process of itself: the component host and the translator of components
 * (spec components 3.9). How that is done depends on what the program is: a checkout, one bundled file, or a compiled
 * binary.
 *
 * The main module of a bundle or binary must call {@linkcode hiddenModeOf} before anything else and enter that mode.
 *
 * @module
 */
import { readVariable } from "./environment_variable.ts";

/** What a helper process is. */
export type HiddenMode = "component-host" | "translate-component";

/** First argument of a helper process; the second is its mode. No command has this name. */
const HIDDEN_ARGUMENT = "--murmur-hidden-mode";

const MODES: readonly HiddenMode[] = ["component-host", "translate-component"];

/** The hidden mode these arguments ask for, `null` for an ordinary command line. */
export function hiddenModeOf(args: readonly string[]): HiddenMode | null {
  if (args[0] !== HIDDEN_ARGUMENT || args.length !== 2) return null;
  return MODES.find((mode) => mode === args[1]) ?? null;
}

/** What a bundle brings along. */
export interface EmbeddedPrograms {
  /** The component host as a classic script: it is evaluated, and serves its standard input from its first statement. */
  readonly componentHost: string;
  /** URL of the bundle itself; the files it carries lie beside it. */
  readonly bundle: string;
}

let embedded: EmbeddedPrograms | null = null;

/** Tells that this program is a bundle. Called once, by its first lines. */
export function setEmbeddedPrograms(programs: EmbeddedPrograms): void {
  embedded = programs;
}

/** The component host a bundle carries; `null` elsewhere. */
export function embeddedComponentHost(): string | null {
  return embedded?.componentHost ?? null;
}

/** Path of a file that a bundle carries; `null` elsewhere. */
export function embeddedFile(name: string): string | null {
  return embedded === null ? null : decodeURIComponent(new URL(name, embedded.bundle).pathname);
}

/**
 * What a program in one file runs from: the directory of everything it unpacked, its own file, which its launcher names,
 * and the one its children start from. Whoever changes these changes the next launch. Empty elsewhere: a checkout is no product.
 */
export function programPlaces(): readonly { readonly path: string; readonly tree: boolean }[] {
  const carried = embeddedFile("..");
  if (carried === null) return [];
  const files = [
    Deno.build.standalone ? Deno.execPath() : readVariable("MURMUR_PROGRAM_FILE"),
    readVariable("MURMUR_MUR_BINARY"),
  ].filter((path) => path?.startsWith("/")) as string[];
  return [
    { path: carried.replace(/\/$/, ""), tree: true },
    ...[...new Set(files)].map((path) => ({ path, tree: false })),
  ];
}

/** A helper process to start. */
export interface ProgramStart {
  readonly command: string;
  readonly args: readonly string[];
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Must be written to its standard input first. */
  readonly preamble: Uint8Array<ArrayBuffer> | null;
  /** Files and directories the process reads besides the program itself; for the wall around it. */
  readonly reads: readonly string[];
}

/** What the process is to be started with. */
export interface ProgramOptions {
  /** Main module in a checkout. */
  readonly checkoutEntry: URL;
  /** The component host as a script, when it was made already. */
  readonly script?: string | null;
  /** V8 flags, e.g. `--wasm-max-mem-pages=8192`. In a compiled binary they go by environment. */
  readonly v8Flags?: readonly string[];
  /** Permission flags; none: no permission at all. */
  readonly permissions?: readonly string[];
}

/** Reads `u32` length and that many bytes of script from standard input and evaluates them, all synchronously. */
const BOOTSTRAP = "const r=a=>{for(let n=0;n<a.length;){const k=Deno.stdin.readSync(a.subarray(n));" +
  "if(k===null)Deno.exit(0);n+=k}return a};" +
  "const l=new DataView(r(new Uint8Array(4)).buffer).getUint32(0,true);" +
  "new Function(new TextDecoder().decode(r(new Uint8Array(l))))()";

/** Nothing is fetched, asked, read from a project or written, whatever lies around. */
const ISOLATED = [
  "--quiet",
  "--no-prompt",
  "--no-config",
  "--no-lock",
  "--no-remote",
  "--no-npm",
  "--cached-only",
  "--node-modules-dir=none",
  "--deny-import",
];

/** How `mur` is started once more, in front of its own arguments. */
export interface OwnProgram {
  /** Absolute path. */
  readonly command: string;
  readonly args: readonly string[];
  /** Variables it needs beside those of whoever starts it: none but in a checkout with a package cache of its own. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * This program's own `mur`, from what it is. Nothing of the directory it stands in configures it.
 *
 * @returns `null` where that can't be told: for a program that embeds the library from elsewhere than a directory.
 */
export function ownProgram(): OwnProgram | null {
  const command = Deno.execPath();
  if (Deno.build.standalone) return { command, args: [], env: {} };
  const start = ["run", "--quiet", "--no-prompt", "-A"];
  if (embedded !== null) return { command, args: [...start, "--no-config", embedded.bundle], env: {} };
  const here = new URL(import.meta.url);
  if (here.protocol !== "file:") return null;
  const path = (relative: string) => decodeURIComponent(new URL(relative, here).pathname);
  const cache = denoDirectory();
  // Where it would look by itself it need not be told.
  const found = cache === null ||
    cache === denoDirectory({ get: (name) => name === "HOME" ? readVariable(name) : undefined });
  return {
    command,
    args: [...start, "--config", path("../deno.json"), path("../cli/main.ts")],
    env: found ? {} : { DENO_DIR: cache },
  };
}

/** The process of a mode, from what this program is. */
export function programStart(mode: HiddenMode, options: ProgramOptions): ProgramStart {
  const command = Deno.execPath();
  const v8Flags = options.v8Flags ?? [];
  const env: Record<string, string> = { DENO_NO_PROMPT: "1", DENO_NO_UPDATE_CHECK: "1", NO_COLOR: "1" };
  if (Deno.build.standalone) {
    if (v8Flags.length > 0) env.DENO_V8_FLAGS = v8Flags.join(",");
    return { command, args: [HIDDEN_ARGUMENT, mode], env, preamble: null, reads: [] };
  }
  const cache = denoDirectory();
  if (cache !== null) env.DENO_DIR = cache;
  const flags = v8Flags.length > 0 ? [`--v8-flags=${v8Flags.join(",")}`] : [];
  const permissions = options.permissions ?? [];
  if (mode === "component-host") {
    const start = ["run", ...ISOLATED, ...permissions, ...flags];
    const text = options.script ?? embedded?.componentHost ?? null;
    if (text === null) {
      const entry = options.checkoutEntry;
      return {
        command,
        args: [...start, entry.href],
        env,
        preamble: null,
        reads: [decodeURIComponent(new URL("..", entry).pathname), ...(cache === null ? [] : [cache])],
      };
    }
    const script = new TextEncoder().encode(text);
    const preamble = new Uint8Array(4 + script.length);
    new DataView(preamble.buffer).setUint32(0, script.length, true);
    preamble.set(script, 4);
    const main = `data:text/javascript,${encodeURIComponent(BOOTSTRAP)}`;
    return { command, args: [...start, main], env, preamble, reads: [] };
  }
  // The translator loads its library as the program itself does: from the cache of packages, where a checkout's lock names
  // each exactly, or from beside the bundle.
  const [isolation, entry] = embedded === null
    ? [["--quiet", "--no-prompt", "--frozen"], [options.checkoutEntry.href]]
    : [ISOLATED, [embedded.bundle, HIDDEN_ARGUMENT, mode]];
  return { command, args: ["run", ...isolation, ...permissions, ...flags, ...entry], env, preamble: null, reads: [] };
}

/** Where Deno keeps its caches: a helper without an environment can't find out by itself. */
export function denoDirectory(env: { get(name: string): string | undefined } = { get: readVariable }): string | null {
  const own = env.get("DENO_DIR");
  if (own) return own;
  const caches = env.get("XDG_CACHE_HOME");
  if (caches) return `${caches}/deno`;
  const home = env.get("HOME");
  if (!home) return null;
  return Deno.build.os === "darwin" ? `${home}/Library/Caches/deno` : `${home}/.cache/deno`;
}
