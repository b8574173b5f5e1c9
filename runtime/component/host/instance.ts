/**
 * Instances of components and their calls (spec components 3.2, 3.7). Core modules and glue code arrive as data;
 * glue is run with the globals it must not see shadowed.
 *
 * @module
 */
import { DENIED_MEMORY, DENIED_TABLE } from "../growth_globals.ts";
import { type Message, MessageType } from "../frames.ts";
import type { CallKind } from "../host_messages.ts";
import { Descriptor, directories, DirectoryEntryStream, filesystemErrorCode, type HostPreopen } from "./filesystem.ts";
import { hookInterfaces, toWitEvent } from "./hook.ts";
import * as http from "./http.ts";
import { decodeText, encodeText, murmurInterfaces, type WitToolResult } from "./murmur.ts";
import type { Pipe } from "./pipe.ts";
import { SOCKETS } from "./sockets.ts";
import { InputStream, IoError, OutputStream, poll, Pollable } from "./streams.ts";
import { GuestExit, type OutputCount, systemInterfaces } from "./system.ts";

type CoreInstantiate = (module: WebAssembly.Module, imports: WebAssembly.Imports) => WebAssembly.Instance;
type Exports = Readonly<Record<string, Readonly<Record<string, (...args: unknown[]) => unknown>> | undefined>>;
type Instantiate = (
  getCoreModule: (name: string) => WebAssembly.Module,
  imports: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
  instantiateCore: CoreInstantiate,
) => Exports;

/** A component whose code is in this process. */
export interface LoadedComponent {
  readonly instantiate: Instantiate;
  readonly modules: ReadonlyMap<string, WebAssembly.Module>;
}

/** Bad UTF-8 from a guest ends the call; it is never replaced (spec components 2.9). */
class StrictTextDecoder extends TextDecoder {
  constructor(label?: string) {
    super(label, { fatal: true, ignoreBOM: true });
  }
}

/** Evaluates the glue code, whose text returns its `instantiate` function. */
export function loadComponent(code: string, modules: ReadonlyMap<string, WebAssembly.Module>): LoadedComponent {
  const shadowed = ["Deno", "process", "fetch"];
  const evaluate = new Function("TextDecoder", ...shadowed, code);
  return { instantiate: evaluate(StrictTextDecoder) as Instantiate, modules };
}

class InstancesExceeded extends Error {
  override readonly name = "InstancesExceeded";
}

/** What an instance is made with. */
interface InstanceHeader {
  readonly kind: CallKind;
  readonly exportName: string;
  readonly environment: readonly (readonly [string, string])[];
  readonly preopens: readonly HostPreopen[];
  readonly instances: number;
}

/** An instance and what is counted of it. */
interface Instance {
  readonly functions: Readonly<Record<string, ((...args: unknown[]) => unknown) | undefined>>;
  readonly counts: Counts;
}

/** What one call is measured by; an instance that lives on starts each call anew. */
class Counts {
  readonly output: OutputCount = { sent: 0, dropped: 0 };
  instances = 0;
  readonly #memory: WebAssembly.Global[] = [];
  readonly #table: WebAssembly.Global[] = [];

  /** A core module's instance has come up. */
  watch(exports: WebAssembly.Exports): void {
    const memory = exports[DENIED_MEMORY];
    if (memory instanceof WebAssembly.Global) this.#memory.push(memory);
    const table = exports[DENIED_TABLE];
    if (table instanceof WebAssembly.Global) this.#table.push(table);
  }

  startCall(): void {
    this.output.sent = 0;
    this.output.dropped = 0;
    for (const global of [...this.#memory, ...this.#table]) global.value = 0n;
  }

  get denied(): { readonly deniedPages: number; readonly deniedElements: number } {
    return { deniedPages: firstDenied(this.#memory), deniedElements: firstDenied(this.#table) };
  }
}

/** Makes an instance; `null` when it does not have the interface. */
function instantiate(pipe: Pipe, component: LoadedComponent, header: InstanceHeader, counts: Counts): Instance | null {
  const instantiateCore: CoreInstantiate = (module, imports) => {
    if (++counts.instances > header.instances) throw new InstancesExceeded();
    const instance = new WebAssembly.Instance(module, imports ?? {});
    counts.watch(instance.exports);
    return instance;
  };
  const exports = component.instantiate(
    (name) => component.modules.get(name)!,
    {
      ...systemInterfaces(
        pipe,
        { environment: header.environment, ownsStdio: header.kind === "capsule" },
        counts.output,
      ),
      ...murmurInterfaces(pipe),
      ...hookInterfaces(pipe),
      ...SOCKETS,
      "wasi:io/error": { Error: IoError },
      "wasi:io/poll": { Pollable, poll },
      "wasi:io/streams": { InputStream, OutputStream },
      "wasi:filesystem/types": { Descriptor, DirectoryEntryStream, filesystemErrorCode },
      "wasi:filesystem/preopens": { getDirectories: () => directories(header.preopens) },
      "wasi:http/types": http,
      "wasi:http/outgoing-handler": { handle: http.handle },
    },
    instantiateCore,
  );
  const functions = exports[header.exportName];
  return functions === undefined ? null : { functions, counts };
}

type End = (how: string, more?: Readonly<Record<string, unknown>>, body?: Uint8Array) => void;

/** Does a piece of work with a guest and sends how it ended. @returns whether the instance may live on. */
function guarded(pipe: Pipe, counts: Counts, work: (end: End) => void): boolean {
  let orderly = false;
  const end: End = (how, more = {}, body) => {
    orderly = how === "ok";
    pipe.send(MessageType.result, 0, { end: how, dropped: counts.output.dropped, ...counts.denied, ...more }, body);
  };
  try {
    work(end);
  } catch (error) {
    if (error instanceof GuestExit) end("exit", { status: error.status });
    else if (error instanceof InstancesExceeded) end("instances", { asked: counts.instances });
    else end("trap", { reason: reasonOf(error) });
  }
  return orderly;
}

/** Runs one call in a fresh instance and sends its result. The process lives on only after an orderly end. */
export function runCall(pipe: Pipe, component: LoadedComponent, message: Message): void {
  const header = message.header as unknown as InstanceHeader;
  const counts = new Counts();
  guarded(pipe, counts, (end) => {
    const run = instantiate(pipe, component, header, counts)?.functions.run;
    if (run === undefined) return end("missing-export");
    pipe.send(MessageType.entered, 0);
    if (header.kind === "capsule") {
      run();
      return end("ok");
    }
    const result = run(toWitInput(decodeText(message.body))) as WitToolResult;
    end(
      "ok",
      {},
      encodeText({
        status: result.status,
        summary: result.summary ?? null,
        data: result.data ?? null,
        dataPath: result.dataPath ?? null,
        truncated: result.truncated,
        metadata: result.metadata,
      }),
    );
  });
}

/** Makes an instance that stays, and answers with the names of its functions; `null` when it did not come up. */
export function openInstance(pipe: Pipe, component: LoadedComponent, message: Message): Instance | null {
  const counts = new Counts();
  let instance: Instance | null = null;
  const orderly = guarded(pipe, counts, (end) => {
    instance = instantiate(pipe, component, message.header as unknown as InstanceHeader, counts);
    if (instance === null) return end("missing-export");
    pipe.send(MessageType.entered, 0);
    end("ok", {}, encodeText(Object.keys(instance.functions)));
  });
  return orderly ? instance : null;
}

/** Calls a function of an instance that stayed: one of a hook (spec components 2.4). */
export function callInstance(pipe: Pipe, { functions, counts }: Instance, message: Message): void {
  counts.startCall();
  pipe.forgetTimer();
  guarded(pipe, counts, (end) => {
    const run = functions[message.header.function as string];
    if (run === undefined) return end("missing-export");
    pipe.send(MessageType.entered, 0);
    let answer: unknown;
    try {
      answer = { ok: run(toWitEvent(decodeText(message.body))) };
    } catch (error) {
      // The glue code throws the `err` of a result this way.
      if (!(error instanceof Error && error.constructor.name === "ComponentError" && "payload" in error)) throw error;
      answer = { err: error.payload };
    }
    end("ok", {}, encodeText(answer));
  });
}

function toWitInput(value: unknown): { data: string | undefined; logPath: string | undefined } {
  const { data, logPath } = value as { data: string | null; logPath: string | null };
  return { data: data ?? undefined, logPath: logPath ?? undefined };
}

function firstDenied(globals: readonly WebAssembly.Global[]): number {
  for (const global of globals) {
    const value = Number(global.value as bigint);
    if (value !== 0) return value;
  }
  return 0;
}

function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.length > 2000 ? `${text.slice(0, 2000)}…` : text;
}
