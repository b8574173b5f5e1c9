/**
 * Real WASM guests for the tests of the component host: QuickJS ones from JavaScript on the fixed world of the guest
 * library, and small ones from WebAssembly text.
 *
 * @module
 */
import { componentize } from "componentize-qjs";
import { componentEmbed, componentNew, parse } from "@bytecodealliance/jco-transpile/wasm-tools";

const WIT = new URL("../../../wit/", import.meta.url);

/** Lays out the packages of `wit/` as one directory: the root package and the others as its dependencies. */
function layOut(directory: string, root: string, standIns = false): void {
  Deno.mkdirSync(`${directory}/deps`, { recursive: true });
  const add = (name: string, text: string) => {
    Deno.mkdirSync(`${directory}/deps/${name}`);
    Deno.writeTextFileSync(`${directory}/deps/${name}/package.wit`, text);
  };
  for (const entry of Deno.readDirSync(WIT)) {
    if (!entry.isDirectory || entry.name === "murmur-typescript-guest") continue;
    const text = withAllMethods(Deno.readTextFileSync(new URL(`${entry.name}/package.wit`, WIT)));
    add(entry.name, standIns && entry.name === "wasi-http" ? toStandIn(text) : text);
    if (standIns && ["wasi-io", "wasi-clocks"].includes(entry.name)) add(`${entry.name}-stand-in`, toStandIn(text));
  }
  Deno.writeTextFileSync(`${directory}/root.wit`, standIns ? toStandIn(root) : root);
}

/** `wasi:io` and `wasi:clocks` under a version of the same length that the QuickJS runtime does not import itself. */
const STANDARD = "0.2.11";
const STAND_IN = "0.1.10";

function toStandIn(text: string): string {
  return text.replaceAll(/(wasi:(?:io|clocks)(?:\/[a-z-]+)?)@0\.2\.10/g, `$1@${STAND_IN}`);
}

/** Adds the methods of `wasi:` interfaces that the guest library does without; other guests use them. */
function withAllMethods(text: string): string {
  return text
    .replace(
      "    append: func(",
      `    from-list: static func(entries: list<tuple<field-name, field-value>>) -> result<fields, header-error>;
    get: func(name: field-name) -> list<field-value>;
    has: func(name: field-name) -> bool;
    set: func(name: field-name, value: list<field-value>) -> result<_, header-error>;
    delete: func(name: field-name) -> result<_, header-error>;
    clone: func() -> fields;
    append: func(`,
    )
    .replace(
      "    set-method: func(",
      `    method: func() -> method;
    path-with-query: func() -> option<string>;
    scheme: func() -> option<scheme>;
    authority: func() -> option<string>;
    headers: func() -> headers;
    set-method: func(`,
    )
    .replace(
      /(resource future-trailers \{\s+subscribe: func\(\) -> pollable;)/,
      "$1 get: func() -> option<result<result<option<trailers>, error-code>>>;",
    )
    .replace(
      "    get-type: func() -> result<descriptor-type, error-code>;",
      `    get-type: func() -> result<descriptor-type, error-code>;
    sync-data: func() -> result<_, error-code>;
    get-flags: func() -> result<descriptor-flags, error-code>;
    set-times: func(data-access-timestamp: new-timestamp, data-modification-timestamp: new-timestamp) -> result<_, error-code>;
    set-times-at: func(path-flags: path-flags, path: string, data-access-timestamp: new-timestamp, data-modification-timestamp: new-timestamp)
      -> result<_, error-code>;
    is-same-object: func(other: borrow<descriptor>) -> bool;
    metadata-hash: func() -> result<metadata-hash-value, error-code>;
    metadata-hash-at: func(path-flags: path-flags, path: string) -> result<metadata-hash-value, error-code>;`,
    )
    .replace(
      "  record directory-entry {",
      `  variant new-timestamp { no-change, now, timestamp(datetime) }
  record metadata-hash-value { lower: u64, upper: u64 }
  record directory-entry {`,
    );
}

function withTempDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = Deno.makeTempDirSync({ prefix: "murmur-guest-" });
  return work(directory).finally(() => Deno.removeSync(directory, { recursive: true }));
}

/**
 * A component from JavaScript, on the fixed world of a role (`wit/murmur-typescript-guest`).
 *
 * `wasi:io` is linked under a stand-in version and renamed in the finished component: the QuickJS runtime can't share
 * the resources of its own import with `wasi:http` otherwise.
 */
export function javascriptGuest(role: "tool" | "capsule" | "hook", source: string): Promise<Uint8Array<ArrayBuffer>> {
  return withTempDirectory(async (directory) => {
    const root = Deno.readTextFileSync(new URL("murmur-typescript-guest/package.wit", WIT));
    layOut(directory, root, true);
    const { component } = await componentize({
      witPath: directory,
      world: role,
      jsSource: source,
      sync: true,
      optSize: true,
    });
    const bytes = new Uint8Array(component);
    const from = new TextEncoder().encode(`@${STAND_IN}`);
    const to = new TextEncoder().encode(`@${STANDARD}`);
    outer: for (let at = bytes.indexOf(from[0]!); at !== -1; at = bytes.indexOf(from[0]!, at + 1)) {
      for (let i = 0; i < from.length; i++) if (bytes[at + i] !== from[i]) continue outer;
      bytes.set(to, at);
    }
    return bytes;
  });
}

/** What a text guest is made of. */
export interface TextGuest {
  /** World text; the packages of `wit/` are there. */
  readonly world: string;
  /** Core module text. */
  readonly module: string;
}

/** A component from the text of a core module, whose imports and exports have the names of the component model. */
export async function textGuest(guest: TextGuest): Promise<Uint8Array<ArrayBuffer>> {
  const packages = [...Deno.readDirSync(WIT)]
    .filter(({ name, isDirectory }) => isDirectory && name !== "murmur-typescript-guest")
    .map(({ name }) => {
      const text = withAllMethods(Deno.readTextFileSync(new URL(`${name}/package.wit`, WIT)));
      return text.replace(/^package ([^;]+);/m, "package $1 {") + "}\n";
    });
  const witSource = `package test:guest;\n${guest.world}\n${packages.join("\n")}`;
  const embedded = await componentEmbed({ binary: await parse(guest.module), witSource });
  return new Uint8Array(await componentNew(embedded, []));
}

/** World of a tool in WebAssembly text. */
export function toolWorld(imports: readonly string[] = []): string {
  return `world tool { ${imports.map((name) => `import ${name};`).join(" ")} export murmur:tool/run@0.1.0; }`;
}

/**
 * A tool in WebAssembly text.
 *
 * `run` gets six numbers (`$tag $data $length …`) and returns the address of a result; `$passed` is that of an empty
 * result with status `passed`. `declarations` stands before the functions, e.g. imports.
 */
export function textTool(
  run: string,
  options: {
    readonly imports?: readonly string[];
    readonly declarations?: string;
    readonly memory?: string;
    readonly more?: string;
  } = {},
): Promise<Uint8Array<ArrayBuffer>> {
  return textGuest({
    world: toolWorld(options.imports),
    module: `(module
      ${options.declarations ?? ""}
      (memory (export "memory") ${options.memory ?? "2"})
      (global $next (mut i32) (i32.const 4096))
      ${options.more ?? ""}
      (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
        (global.set $next (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
        (global.get $next)
        (global.set $next (i32.add (global.get $next) (local.get 3))))
      (func (export "murmur:tool/run@0.1.0#run")
        (param $tag i32) (param $data i32) (param $length i32) (param i32 i32 i32) (result i32)
        ${run}))`,
  });
}
