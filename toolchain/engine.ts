/**
 * The JavaScript engine that components are built on, made deterministic.
 *
 * A component is a snapshot of the engine after it has read the author's code. The engine as it is published takes a hash
 * seed, the seed of `Math.random` and a time origin from the host meanwhile, so that no two snapshots are alike. Here the
 * calls behind those are replaced: until the snapshot is taken they give fixed values, from then on the host's. So a
 * component is a function of its source alone, and an instance has its host's clock and randomness as before.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { packageFile } from "./package_file.ts";
import { concat, leb, readSections, redirectCalls, type Section, WasmReader, writeSections } from "./wasm_module.ts";

const IMPORT = 2;
const FUNCTION = 3;
const GLOBAL = 6;
const CODE = 10;

const I32 = 0x7f;
const I64 = 0x7e;
const EMPTY = 0x40;

/** Wall clock of the build: 2020-01-01, in seconds, as a signed LEB128. */
const BUILD_TIME = [0x80, 0xc2, 0xaf, 0xf0, 0x05];

interface FunctionImport {
  readonly module: string;
  readonly name: string;
  readonly index: number;
  readonly type: number;
}

function functionImports(section: Section): FunctionImport[] {
  const reader = new WasmReader(section.body);
  const found: FunctionImport[] = [];
  for (let count = reader.u32(); count > 0; count--) {
    const module = reader.name();
    const name = reader.name();
    const kind = reader.byte();
    if (kind === 0) found.push({ module, name, index: found.length, type: reader.u32() });
    else if (kind === 3) reader.take(2);
    else {
      if (kind === 1) reader.byte();
      const flags = reader.byte();
      reader.skipLeb();
      if ((flags & 1) === 1) reader.skipLeb();
    }
  }
  return found;
}

function importedGlobals(section: Section): number {
  const reader = new WasmReader(section.body);
  let globals = 0;
  for (let count = reader.u32(); count > 0; count--) {
    reader.name();
    reader.name();
    const kind = reader.byte();
    if (kind === 0) reader.skipLeb();
    else if (kind === 3) {
      reader.take(2);
      globals++;
    } else {
      if (kind === 1) reader.byte();
      const flags = reader.byte();
      reader.skipLeb();
      if ((flags & 1) === 1) reader.skipLeb();
    }
  }
  return globals;
}

function unexpected(what: string): MurError {
  return new MurError("E-BLD-005", `the JavaScript engine cannot be prepared: ${what}`);
}

/**
 * Makes an engine deterministic while it is being snapshotted.
 *
 * @throws {MurError} `E-BLD-005` when it is not built the way this expects.
 */
export function makeDeterministic(engine: Uint8Array): Uint8Array<ArrayBuffer> {
  const sections = readSections(engine);
  const section = (id: number): Section => {
    const found = sections.find((each) => each.id === id);
    if (found === undefined) throw unexpected(`it has no section ${id}`);
    return found;
  };
  const imports = functionImports(section(IMPORT));
  const only = (module: RegExp, name: string): FunctionImport => {
    const found = imports.filter((each) => module.test(each.module) && each.name === name);
    const [first] = found;
    if (first === undefined || found.length > 1) throw unexpected(`it imports ${name} ${found.length} times`);
    return first;
  };
  const seed = only(/^wasi:random\/insecure-seed@/, "insecure-seed");
  const monotonic = only(/^wasi:clocks\/monotonic-clock@/, "now");
  const wall = only(/^wasi:clocks\/wall-clock@/, "now");
  // The last thing the engine does before the snapshot.
  const finish = only(/^wasi_snapshot_preview1$/, "reset_adapter_state");

  const types = new WasmReader(section(FUNCTION).body);
  const defined = types.u32();
  const globals = new WasmReader(section(GLOBAL).body);
  const globalCount = globals.u32();
  const live = leb(importedGlobals(section(IMPORT)) + globalCount);
  const ifLive = (result: number, then: number[], otherwise: number[]) => [
    ...[0x23, ...live, 0x04, result, ...then, 0x05, ...otherwise, 0x0b, 0x0b],
  ];
  const call = (target: FunctionImport) => [0x10, ...leb(target.index)];
  const address = [0x20, 0x00];
  const i64 = (value: number[], offset: number) => [...address, 0x42, ...value, 0x37, 0x03, offset];
  const shims: { readonly replaces: FunctionImport; readonly code: number[] }[] = [
    { replaces: seed, code: ifLive(EMPTY, [...address, ...call(seed)], [...i64([0x01], 0), ...i64([0x02], 8)]) },
    { replaces: monotonic, code: ifLive(I64, call(monotonic), [0x42, 0x00]) },
    {
      replaces: wall,
      code: ifLive(EMPTY, [...address, ...call(wall)], [
        ...i64(BUILD_TIME, 0),
        ...[...address, 0x41, 0x00, 0x36, 0x02, 0x08],
      ]),
    },
    { replaces: finish, code: [...call(finish), 0x41, 0x01, 0x24, ...live, 0x0b] },
  ];
  const targets = new Map(shims.map(({ replaces }, index) => [replaces.index, imports.length + defined + index]));

  const code = new WasmReader(section(CODE).body);
  const bodies: (Uint8Array | number[])[] = [];
  const redirected = new Set<number>();
  for (let count = code.u32(); count > 0; count--) {
    const body = code.take(code.u32());
    const changed = redirectCalls(body, targets, (target) => redirected.add(target)) ?? body;
    bodies.push(leb(changed.length), changed);
  }
  if (redirected.size !== shims.length) throw unexpected("it does not call its clocks and seeds directly");
  for (const shim of shims) bodies.push([...leb(shim.code.length + 1), 0x00, ...shim.code]);

  const extended = new Map<number, Uint8Array>([
    [
      FUNCTION,
      concat([
        leb(defined + shims.length),
        types.take(types.bytes.length - types.position),
        shims.flatMap(({ replaces }) => leb(replaces.type)),
      ]),
    ],
    [
      GLOBAL,
      concat([
        leb(globalCount + 1),
        globals.take(globals.bytes.length - globals.position),
        [I32, 0x01, 0x41, 0x00, 0x0b],
      ]),
    ],
    [CODE, concat([leb(defined + shims.length), ...bodies])],
  ]);
  return writeSections(sections.map(({ id, body }) => ({ id, body: extended.get(id) ?? body })));
}

/**
 * Where an engine that starts at `start` ends, or `null` when it is none: the first of its sections is `dylink.0`, and a
 * compiler closes a module with custom sections, so it ends where those end.
 */
function moduleEnd(program: Uint8Array, start: number): number | null {
  const reader = new WasmReader(program, start + 8);
  let end: number | null = null;
  let sawCode = false;
  try {
    for (let first = true;; first = false) {
      const id = reader.byte();
      const body = reader.take(reader.u32());
      const name = id === 0 ? new WasmReader(body).name() : "";
      if (first && name !== "dylink.0") return null;
      if (id > 13 || (end !== null && !/^[ -~]+$/.test(name))) return end;
      sawCode ||= id === CODE;
      if (sawCode && name !== "") end = reader.position;
    }
  } catch {
    return end;
  }
}

/** Every core module for dynamic linking that lies in a program's bytes. */
function embeddedModules(program: Uint8Array): Uint8Array[] {
  const modules: Uint8Array[] = [];
  for (let at = program.indexOf(0x61); at !== -1; at = program.indexOf(0x61, at + 1)) {
    const start = at - 1;
    const magic = start >= 0 && program[start] === 0x00 && program[at + 1] === 0x73 && program[at + 2] === 0x6d &&
      program[at + 3] === 0x01 && program[at + 4] === 0x00;
    if (!magic) continue;
    const end = moduleEnd(program, start);
    if (end !== null) modules.push(program.slice(start, end));
  }
  return modules;
}

/** The synchronous engine among those a build of `componentize-qjs` contains: the larger one is built for speed. */
export function findEngine(program: Uint8Array): Uint8Array {
  const candidates = embeddedModules(program).filter((module) => {
    const section = readSections(module).find(({ id }) => id === IMPORT);
    if (section === undefined) return false;
    const imports = functionImports(section);
    const engine = imports.some(({ module }) => module === "local:init/module-loader");
    // The others speak the asynchronous ABI, whose built-ins come from the root.
    return engine && !imports.some(({ module }) => module === "$root");
  });
  const found = candidates.sort((a, b) => b.length - a.length)[0];
  if (found === undefined) throw unexpected("no engine was found in componentize-qjs");
  return found;
}

/** Reads the engine out of the `componentize-qjs` of this platform and makes it deterministic. */
export async function loadEngine(): Promise<Uint8Array<ArrayBuffer>> {
  return makeDeterministic(findEngine(await Deno.readFile(await bindingFile())));
}

/** Path of the addon of `componentize-qjs` for this platform. */
export async function bindingFile(): Promise<string> {
  const { createRequire } = await import("node:module");
  const require = createRequire(packageFile("componentize-qjs"));
  const arch = Deno.build.arch === "aarch64" ? "arm64" : "x64";
  const platforms = Deno.build.os === "darwin"
    ? [`darwin-${arch}`]
    : Deno.build.os === "windows"
    ? [`win32-${arch}-msvc`]
    : [`linux-${arch}-gnu`, `linux-${arch}-musl`];
  for (const platform of platforms) {
    try {
      return require.resolve(`@andreiltd/componentize-qjs-binding-${platform}`);
    } catch {
      // Not installed for this C library; the other one is.
    }
  }
  throw unexpected(`componentize-qjs has no build for ${Deno.build.os} on ${Deno.build.arch}`);
}
