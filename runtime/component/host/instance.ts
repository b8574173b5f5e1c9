/**
 * One instance of a component and one call of it (spec components 3.2, 3.7). Core modules and glue code arrive as data;
 * glue is run with the globals it must not see shadowed.
 *
 * @module
 */
import { DENIED_MEMORY, DENIED_TABLE } from "../growth_globals.ts";
import { type Message, MessageType } from "../frames.ts";
import { Descriptor, directories, DirectoryEntryStream, filesystemErrorCode, type HostPreopen } from "./filesystem.ts";
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

interface CallHeader {
  readonly kind: "tool" | "capsule";
  readonly exportName: string;
  readonly environment: readonly (readonly [string, string])[];
  readonly preopens: readonly HostPreopen[];
  readonly instances: number;
}

/** Runs one call in a fresh instance and sends its result. The process lives on only after an orderly end. */
export function runCall(pipe: Pipe, component: LoadedComponent, message: Message): void {
  const header = message.header as unknown as CallHeader;
  const count: OutputCount = { sent: 0, dropped: 0 };
  const denials: { readonly memory: WebAssembly.Global[]; readonly table: WebAssembly.Global[] } = {
    memory: [],
    table: [],
  };
  let instances = 0;
  const instantiateCore: CoreInstantiate = (module, imports) => {
    if (++instances > header.instances) throw new InstancesExceeded();
    const instance = new WebAssembly.Instance(module, imports ?? {});
    const memory = instance.exports[DENIED_MEMORY];
    if (memory instanceof WebAssembly.Global) denials.memory.push(memory);
    const table = instance.exports[DENIED_TABLE];
    if (table instanceof WebAssembly.Global) denials.table.push(table);
    return instance;
  };
  const end = (how: string, more: Readonly<Record<string, unknown>> = {}, body?: Uint8Array) => {
    pipe.send(MessageType.result, 0, {
      end: how,
      dropped: count.dropped,
      deniedPages: firstDenied(denials.memory),
      deniedElements: firstDenied(denials.table),
      ...more,
    }, body);
  };

  try {
    const exports = component.instantiate(
      (name) => component.modules.get(name)!,
      {
        ...systemInterfaces(pipe, { environment: header.environment, ownsStdio: header.kind === "capsule" }, count),
        ...murmurInterfaces(pipe),
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
    const run = exports[header.exportName]?.run;
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
  } catch (error) {
    if (error instanceof GuestExit) end("exit", { status: error.status });
    else if (error instanceof InstancesExceeded) end("instances", { asked: instances });
    else end("trap", { reason: reasonOf(error) });
  }
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
