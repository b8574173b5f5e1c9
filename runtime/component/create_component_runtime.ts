/**
 * The component side of one launch: translation, processes, calls, and the texts of their failures (spec components 3).
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import type { Wall } from "../../sandbox/guard.ts";
import type { JsonValue } from "../../base/json_value.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import { sha256Hex } from "../../artifact/sha256.ts";
import type { ComponentLimits } from "../../artifact/manifest/capsule_manifest.ts";
import { ComponentPool, type Lease } from "./component_pool.ts";
import {
  type CallEnd,
  type CallRequest,
  type ComponentProcess,
  memoryLimitText,
  type ProcessStart,
  tableLimitText,
} from "./component_process.ts";
import {
  type CallContext,
  type CompiledComponent,
  ComponentFailure,
  type ComponentRuntime,
  type ComponentSpec,
  type SessionInstance,
  type ToolInput,
  type ToolResult,
} from "./component_runtime.ts";
import { hostStart } from "./host_start.ts";
import { residentBytes } from "./resident_memory.ts";
import { type InterfaceMismatch, isLinkedFor, judgeImport, ROLE_EXPORTS } from "./served_interfaces.ts";
import type { TranslatedComponent } from "./translated_component.ts";
import { TranspileCache } from "./transpile_cache.ts";

/** What a launch decides about its components. */
export interface ComponentRuntimeOptions {
  /** `~/.murmur/compiled`. */
  readonly compiledDirectory: string;
  readonly bounds: Pick<TimeBounds, "componentIdle" | "componentReserve" | "componentHostStart">;
  /** Limits of the capsule, for processes started before a component is known. */
  readonly limits: ComponentLimits;
  /** Path of `mur-confine`, `null` where there is none. */
  readonly confineHelper: string | null;
  /** Hash in hex of what is launched: what it calls first is loaded ahead next time. */
  readonly launch?: string;
  /** The host program as a script (`host_program.ts`). */
  readonly hostScript?: string | null;
  /** The first host process, when it was started already. */
  readonly ahead?: ComponentProcess | null;
  /** Starts another program as host process; tests put hostile ones there. */
  readonly startOverride?: (memoryBytes: number) => ProcessStart;
}

/** A component runtime, with what tests and benchmarks look at. */
export interface ObservableComponentRuntime extends ComponentRuntime {
  /** Ids of the host processes alive now. */
  readonly pids: readonly number[];
  /** Waits until the reserve is warm. */
  warmed(): Promise<void>;
}

function withoutVersion(name: string): string {
  return name.replace(/@.*$/, "");
}

function rebuildAdvice(subject: string): string {
  return `rebuild ${subject} against the served interfaces, or run 'mur install' for a default artifact`;
}

function importError(subject: string, mismatch: InterfaceMismatch): MurError {
  const hint = rebuildAdvice(subject);
  const { name, reason, served } = mismatch;
  const path = withoutVersion(name);
  switch (reason) {
    case "other-version":
      return new MurError("E-RUN-002", `${subject} imports '${name}', the runtime serves '${path}@${served}'`, {
        hint,
      });
    case "no-version":
      return new MurError(
        "E-RUN-002",
        `${subject} imports '${name}' without a version, the runtime serves '${path}@${served}'`,
        { hint },
      );
    case "unknown-package":
    case "not-served":
      return new MurError("E-RUN-002", `${subject} imports '${name}', which the runtime does not serve`, { hint });
  }
}

/** A translated component whose imports are all served. @throws {MurError} `E-RUN-002`. */
function judged({ sha256, names }: TranslatedComponent, subject: string): CompiledComponent {
  const { imports, exports, usedImports } = names;
  const unversioned = new Set(imports.map(withoutVersion));
  for (const name of usedImports) {
    // A function imported by the world itself belongs to no interface.
    if (!unversioned.has(name)) throw importError(subject, { name, reason: "not-served", served: null });
  }
  for (const name of imports) {
    const mismatch = judgeImport(name, !usedImports.includes(withoutVersion(name)));
    if (mismatch !== null) throw importError(subject, mismatch);
  }
  return { sha256, imports, exports };
}

/** Names under which the scope report lists the kernel's walls (spec containment 16.2). */
const REPORTED_WALLS: Partial<Readonly<Record<Wall, string>>> = {
  "pid-namespace": "pid-namespace",
  "network-namespace": "no-network",
  "landlock": "no-files",
  "seccomp": "seccomp",
};

/**
 * Makes the component side of a launch; its first host process is started at once, unless it was ahead.
 *
 * @throws {MurError} `E-RUN-001` when no host process can be started.
 */
export function createComponentRuntime(options: ComponentRuntimeOptions): ObservableComponentRuntime {
  return new Runtime(options);
}

class Runtime implements ObservableComponentRuntime {
  readonly #options: ComponentRuntimeOptions;
  readonly #cache: TranspileCache;
  readonly #pool: ComponentPool;
  readonly #components = new Map<string, TranslatedComponent>();
  readonly foreseen: Promise<void>;

  constructor(options: ComponentRuntimeOptions) {
    this.#options = options;
    this.#cache = new TranspileCache(options.compiledDirectory);
    this.#pool = new ComponentPool({
      start: options.startOverride ?? ((memoryBytes, purpose) => hostStart(options, memoryBytes, purpose)),
      ahead: options.ahead ?? null,
      reserveMemoryBytes: options.limits.memoryBytes,
      idleBound: options.bounds.componentIdle,
      reserveDelay: options.bounds.componentReserve,
      asleep: () => {
        for (const component of this.#components.values()) component.putAway();
      },
    });
    this.foreseen = options.launch === undefined
      ? Promise.resolve()
      // What could not be read ahead is read, and its failure told, when it is needed.
      : this.#foresee(options.launch).catch(() => {});
  }

  get pids(): readonly number[] {
    return this.#pool.pids;
  }

  warmed(): Promise<void> {
    return this.#pool.warmed();
  }

  async compile(bytes: Uint8Array, subject: string): Promise<CompiledComponent> {
    const own = new Uint8Array(bytes);
    const sha256 = await sha256Hex(own);
    let component = this.#components.get(sha256);
    if (component === undefined) {
      component = this.#known(await this.#cache.translate(own, sha256, subject));
    }
    return judged(component, subject);
  }

  async compileArchived(
    archiveSha256: string,
    unpack: () => Promise<Uint8Array>,
    subject: string,
  ): Promise<CompiledComponent> {
    await this.foreseen;
    const sha256 = this.#cache.remembered("archive", archiveSha256);
    const known = sha256 === null ? null : this.#components.get(sha256) ?? await this.#cached(sha256);
    if (known !== null) return judged(known, subject);
    const compiled = await this.compile(await unpack(), subject);
    this.#cache.remember("archive", archiveSha256, compiled.sha256);
    return compiled;
  }

  async #cached(sha256: string): Promise<TranslatedComponent | null> {
    const component = await this.#cache.byComponent(sha256);
    return component === null ? null : this.#known(component);
  }

  /** One of each component is kept, also when it was read twice at the same time. */
  #known(component: TranslatedComponent): TranslatedComponent {
    const known = this.#components.get(component.sha256);
    if (known === component) return component;
    if (known !== undefined) {
      component[Symbol.dispose]();
      return known;
    }
    this.#components.set(component.sha256, component);
    return component;
  }

  /** Gives the reserve what the last launch of the same capsule called first, while this one is still being read. */
  async #foresee(launch: string): Promise<void> {
    const sha256 = this.#cache.remembered("launch", launch);
    const component = sha256 === null ? null : await this.#cached(sha256);
    if (component !== null) this.#pool.expect({ limits: this.#options.limits }, component);
  }

  expect(compiled: CompiledComponent, limits: ComponentLimits): void {
    const component = this.#components.get(compiled.sha256);
    if (component === undefined) return;
    this.#pool.expect({ limits }, component);
    if (this.#options.launch !== undefined) this.#cache.remember("launch", this.#options.launch, compiled.sha256);
  }

  letGoWhenIdle(): void {
    this.#pool.letGoWhenIdle();
  }

  async callTool(spec: ComponentSpec, input: ToolInput, context: CallContext): Promise<ToolResult> {
    const { result } = await this.#call(spec, "tool", input, context);
    if (result === null) throw new Error("a tool call ended without its result");
    return result;
  }

  async runCapsule(spec: ComponentSpec, context: CallContext): Promise<void> {
    await this.#call(spec, "capsule", null, context);
  }

  async openInstance(spec: ComponentSpec, context: CallContext): Promise<SessionInstance> {
    const component = this.#requireLinked(spec);
    let held: ReturnType<ComponentPool["hold"]>;
    try {
      held = this.#pool.hold(spec);
    } catch (error) {
      if (!(error instanceof MurError)) throw error;
      throw failureOf(spec, { kind: "crashed", how: error.message, started: false });
    }
    if (held === null) throw failureOf(spec, { kind: "aborted" });
    const { process, settled } = held;
    const request = (name: string | null, input: JsonValue, context: CallContext): CallRequest => ({
      spec,
      kind: "hook",
      function: name,
      input,
      context,
      entryBound: this.#options.bounds.componentHostStart,
    });
    let end: CallEnd;
    try {
      end = await this.#callIn(process, component, request(null, null, context));
    } finally {
      settled();
    }
    const functions = end.kind === "ok" ? functionNames(end.answer) : null;
    if (functions === null) {
      process.kill();
      throw failureOf(
        spec,
        end.kind === "ok" ? { kind: "crashed", how: "its host gave no list of functions", started: true } : end,
      );
    }
    return {
      functions,
      get lost() {
        return process.dead;
      },
      call: async (name, event, context) => {
        const end = await process.call(component, request(name, event, context));
        if (end.kind === "ok") return end.answer;
        process.kill();
        throw failureOf(spec, end, name);
      },
      close: () => process.kill(),
    };
  }

  async walls(): Promise<readonly string[]> {
    const kernel = await this.#pool.walls();
    return [
      ...Object.entries(REPORTED_WALLS).filter(([wall]) => kernel.includes(wall as Wall)).map(([, name]) => name),
      // The size is watched from here, wherever the system tells it (spec containment 16.2).
      ...(residentBytes(Deno.pid) === null ? [] : ["memory"]),
    ];
  }

  async close(): Promise<void> {
    await this.#pool.close();
    for (const component of this.#components.values()) component[Symbol.dispose]();
  }

  /** The component of a spec, when everything it needs is there. @throws {ComponentFailure} */
  #requireLinked(spec: ComponentSpec): TranslatedComponent {
    const component = this.#components.get(spec.compiled.sha256);
    if (component === undefined) throw new Error(`component ${spec.compiled.sha256} was not compiled by this runtime`);
    const { imports, exports, usedImports } = component.names;
    const exported = ROLE_EXPORTS[spec.role];
    if (!exports.includes(exported)) throw failureOf(spec, { kind: "missing-export" });
    for (const name of imports) {
      if (isLinkedFor(spec.role, name) || !usedImports.includes(withoutVersion(name))) continue;
      throw new ComponentFailure(
        "missing-import",
        `${subjectOf(spec)} imports '${name}', which a ${spec.role} is not given; ${rebuildAdvice(subjectOf(spec))}`,
      );
    }
    return component;
  }

  async #call(
    spec: ComponentSpec,
    kind: "tool" | "capsule",
    input: ToolInput | null,
    context: CallContext,
  ): Promise<Extract<CallEnd, { kind: "ok" }>> {
    const component = this.#requireLinked(spec);
    const request: CallRequest = {
      spec,
      kind,
      function: null,
      input,
      context,
      entryBound: this.#options.bounds.componentHostStart,
    };
    let end = await this.#attempt(component, request, false);
    // Killed from outside while it idled: nothing of this call had happened.
    if (end.kind === "crashed" && !end.started && end.retry) end = await this.#attempt(component, request, true);
    if (end.kind === "ok") return end;
    throw failureOf(spec, end);
  }

  async #attempt(
    component: TranslatedComponent,
    request: CallRequest,
    fresh: boolean,
  ): Promise<CallEnd & { readonly retry?: boolean }> {
    const { spec } = request;
    let lease: Lease | null;
    try {
      lease = this.#pool.acquire(spec, component, fresh);
    } catch (error) {
      if (error instanceof MurError) return { kind: "crashed", how: error.message, started: false };
      throw error;
    }
    if (lease === null) return { kind: "aborted" };
    try {
      // While a process is leased nothing is put away.
      return { ...await this.#callIn(lease.process, component, request), retry: lease.used };
    } finally {
      if (request.kind === "capsule") lease.process.kill();
      lease.release();
    }
  }

  /** Gives a process the code of a component, and calls it there. */
  async #callIn(process: ComponentProcess, component: TranslatedComponent, request: CallRequest): Promise<CallEnd> {
    const { spec } = request;
    const code = component.code ?? await component.load();
    if (code === null) {
      return { kind: "crashed", how: "its translation was changed while the session slept", started: false };
    }
    const exceeded = process.load(component, code, spec);
    if (exceeded !== null) {
      const { memoryBytes, tableElements } = spec.limits;
      const what = exceeded.what === "memory"
        ? memoryLimitText(exceeded.asked, memoryBytes)
        : tableLimitText(exceeded.asked, tableElements);
      return { kind: "limit", what };
    }
    if (!await process.ready(this.#options.bounds.componentHostStart)) {
      return { kind: "crashed", how: "the host process did not start", started: false };
    }
    return await process.call(component, request);
  }
}

/** The function names that a host listed, `null` when it is no such list. */
function functionNames(answer: unknown): ReadonlySet<string> | null {
  const isName = (name: unknown) => typeof name === "string" && name.length <= 100;
  return Array.isArray(answer) && answer.length <= 100 && answer.every(isName) ? new Set(answer) : null;
}

function subjectOf({ role, name }: ComponentSpec): string {
  return `${role === "driver" ? "tool" : role} '${name}'`;
}

/** `onToolCall` as the interface names it, `on-tool-call`. */
function witName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** The failure of a call, in the words of spec components 3.8 and containment 15. */
function failureOf(
  spec: ComponentSpec,
  end: Exclude<CallEnd, { kind: "ok" }>,
  called: string | null = null,
): ComponentFailure {
  const subject = spec.role === "capsule"
    ? "capsule execution"
    : called === null
    ? subjectOf(spec)
    : `${subjectOf(spec)} ${witName(called)}`;
  const { deadlineSeconds } = spec.limits;
  const limit = "capabilities.limits.deadline_seconds";
  switch (end.kind) {
    case "deadline":
      return new ComponentFailure(
        "deadline",
        spec.role === "capsule"
          ? `${subject} exceeded its ${deadlineSeconds}s deadline and was interrupted (${limit})`
          : `${subject} exceeded its ${deadlineSeconds}s execution deadline (${limit}) and was interrupted`,
      );
    case "limit":
      return new ComponentFailure("limit", `${subject} exceeded its configured resource limits: ${end.what}`);
    case "trap":
      return new ComponentFailure("trap", `${subject} trapped: ${end.reason}`);
    case "crashed":
      return new ComponentFailure("crashed", `${subject} crashed: ${end.how}`);
    case "aborted":
      return new ComponentFailure("aborted", `${subject} was aborted`);
    case "missing-export": {
      const name = spec.role !== "hook"
        ? `${ROLE_EXPORTS[spec.role]}#run`
        : called === null
        ? ROLE_EXPORTS.hook
        : `${ROLE_EXPORTS.hook}#${witName(called)}`;
      return new ComponentFailure(
        "missing-export",
        `${subjectOf(spec)} does not export '${name}'; ${rebuildAdvice(subjectOf(spec))}`,
      );
    }
  }
}
