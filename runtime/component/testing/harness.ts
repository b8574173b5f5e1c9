/**
 * A component runtime over temporary directories, for tests.
 *
 * @module
 */
import { RootedDir } from "../../../base/rooted_dir.ts";
import { DEFAULT_TIME_BOUNDS } from "../../../base/time_bounds.ts";
import type { ComponentLimits } from "../../../artifact/manifest/capsule_manifest.ts";
import {
  type CallContext,
  type ComponentSpec,
  type OutgoingHttp,
  OutgoingHttpError,
  type Preopen,
  type ToolResult,
} from "../component_runtime.ts";
import {
  type ComponentRuntimeOptions,
  createComponentRuntime,
  type ObservableComponentRuntime,
} from "../create_component_runtime.ts";
import { javascriptGuest } from "./guests.ts";

/** Limits as a manifest without any has them. */
export const LIMITS: ComponentLimits = {
  memoryBytes: 512 << 20,
  tableElements: 100_000,
  instances: 1_000,
  deadlineSeconds: 600,
  deadlineDeclared: false,
};

/** An `OutgoingHttp` for artifacts that must not send anything. */
export const NO_HTTP: OutgoingHttp = (request) =>
  Promise.reject(new OutgoingHttpError("HTTP-request-denied", `not allowed: ${request.url.host}`));

/** A harness whose host processes do what a name says (`hostile_host.ts`). */
export function hostileHarness(behaviour: string, componentHostStart = 20_000): Harness {
  return new Harness({
    bounds: { componentHostStart },
    startOverride: (memoryBytes) => ({
      command: Deno.execPath(),
      args: ["run", "--quiet", "--no-lock", "-A", new URL("./hostile_host.ts", import.meta.url).href, behaviour],
      env: { DENO_DIR: Deno.env.get("DENO_DIR") ?? "", HOME: Deno.env.get("HOME") ?? "", PATH: "" },
      preamble: null,
      memoryBytes,
    }),
  });
}

/** What a test has otherwise than the product. */
export interface HarnessOptions extends Partial<Omit<ComponentRuntimeOptions, "bounds">> {
  readonly bounds?: Partial<ComponentRuntimeOptions["bounds"]>;
}

/** A runtime with a home and a work folder of its own. */
export class Harness implements AsyncDisposable {
  readonly directory: string;
  readonly work: string;
  readonly runtime: ObservableComponentRuntime;
  readonly #roots: RootedDir[] = [];

  constructor({ bounds, ...options }: HarnessOptions = {}) {
    this.directory = Deno.makeTempDirSync({ prefix: "murmur-component-" });
    this.work = `${this.directory}/work`;
    Deno.mkdirSync(this.work);
    try {
      this.runtime = createComponentRuntime({
        compiledDirectory: sharedCompiledDirectory(),
        bounds: { ...DEFAULT_TIME_BOUNDS, ...bounds },
        limits: LIMITS,
        confineHelper: null,
        ...options,
      });
    } catch (error) {
      Deno.removeSync(this.directory, { recursive: true });
      throw error;
    }
  }

  /** A preopen below the harness's directory. */
  preopen(guestPath: string, path = this.work, writable = true): Preopen {
    const root = RootedDir.open(path);
    this.#roots.push(root);
    return { guestPath, root, writable };
  }

  /** A spec for a component, compiled now. */
  async spec(bytes: Uint8Array, changes: Partial<ComponentSpec> = {}): Promise<ComponentSpec> {
    return {
      name: "probe",
      role: "tool",
      compiled: await this.runtime.compile(bytes, "tool 'probe'"),
      environment: {},
      preopens: [],
      http: NO_HTTP,
      limits: LIMITS,
      sharesProcess: true,
      ...changes,
    };
  }

  /** Calls the tool that does everything and gives the value it answers. */
  async do(
    spec: ComponentSpec,
    op: string,
    args: Readonly<Record<string, unknown>> = {},
    context: CallContext = {},
  ): Promise<unknown> {
    const result = await this.call(spec, { op, ...args }, context);
    return JSON.parse(result.data!);
  }

  /** As {@linkcode do}, with a refused operation as its error code. */
  async try(spec: ComponentSpec, op: string, args: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    const outcome = await this.do(spec, op, { ...args, caught: true }) as { ok?: unknown; error?: unknown };
    return outcome.error ?? outcome.ok;
  }

  /** Starts a guest that spins, and waits until it does. */
  async spin(spec: ComponentSpec, signal?: AbortSignal): Promise<{ readonly ended: Promise<unknown> }> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const context: CallContext = { emitChunk: () => resolve(), ...(signal === undefined ? {} : { signal }) };
    const ended = this.do(spec, "spin", {}, context);
    ended.catch(() => {});
    await Promise.race([promise, ended]);
    return { ended };
  }

  call(spec: ComponentSpec, data: unknown, context: CallContext = {}): Promise<ToolResult> {
    return this.runtime.callTool(spec, { data: JSON.stringify(data), logPath: null }, context);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.runtime.close();
    for (const root of this.#roots) root.close();
    Deno.removeSync(this.directory, { recursive: true });
  }
}

let compiled: string | undefined;

/** One cache for all tests of a file: translating takes a second. */
function sharedCompiledDirectory(): string {
  if (compiled === undefined) {
    const directory = Deno.makeTempDirSync({ prefix: "murmur-compiled-" });
    compiled = directory;
    addEventListener("unload", () => Deno.removeSync(directory, { recursive: true }));
  }
  return compiled;
}

let everything: Promise<Uint8Array<ArrayBuffer>> | undefined;

/** The tool that does everything, built once per test file. */
export function everythingTool(): Promise<Uint8Array<ArrayBuffer>> {
  everything ??= javascriptGuest(
    "tool",
    Deno.readTextFileSync(new URL("./everything_tool.js", import.meta.url)),
  );
  return everything;
}

/** Whether a process with this id is alive. */
export function isAlive(pid: number): boolean {
  try {
    const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
    return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3) !== "Z";
  } catch {
    return false;
  }
}

/** Waits until `condition` holds, at most ten seconds. */
export async function eventually(condition: () => boolean): Promise<void> {
  for (const end = performance.now() + 10_000; !condition();) {
    if (performance.now() > end) throw new Error("what was waited for did not come");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
