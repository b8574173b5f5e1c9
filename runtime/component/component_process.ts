/**
 * One component host process as the runtime sees it: it is started, given code, called, and killed. Everything it sends
 * is judged; what no honest host would send ends it (spec components 3.9).
 *
 * @module
 */
import { MurError, reasonOf } from "../../base/errors.ts";
import type { JsonValue } from "../../base/json_value.ts";
import { type ExitStatus, PipedProcess } from "../../base/piped_process.ts";
import { parseWalls, type Wall } from "../../sandbox/guard.ts";
import { ComponentFiles } from "./component_files.ts";
import { ComponentHttp } from "./component_http.ts";
import type { CallContext, ComponentSpec, ToolInput, ToolResult } from "./component_runtime.ts";
import { capModule, type MinimumExceeded } from "./core_module.ts";
import {
  encodeMessage,
  encodeMessageParts,
  FrameError,
  type Header,
  MAX_HOST_MESSAGE_BYTES,
  type Message,
  MessageDecoder,
  MessageType,
} from "./frames.ts";
import {
  type CallKind,
  countField,
  flagField,
  jsonBody,
  objectBody,
  optionalTextField,
  pairsField,
  ProtocolViolation,
  textBody,
  textField,
} from "./host_messages.ts";
import { GuestOutput } from "./guest_output.ts";
import { residentBytes } from "./resident_memory.ts";
import { ROLE_EXPORTS } from "./served_interfaces.ts";
import type { TranslatedComponent } from "./translated_component.ts";
import type { Translation } from "./translation.ts";

/** Resident bytes of a host beyond its guest's own memory: the engine, the code, host-side buffers. */
export const ENGINE_ALLOWANCE_BYTES = 384 << 20;

/** How often the resident size is looked at while a call runs, in milliseconds. */
const RESIDENT_CHECK_MS = 100;

/** Longest text or list in a tool's result. */
const MAX_VALUE = MAX_HOST_MESSAGE_BYTES;

const MAX_TIMER_MS = 2 ** 31 - 1;

/** Most bytes on their way to a host that asks for more: the windows of all its requests, and the longest reply. */
const MAX_UNREAD_BYTES = 128 << 20;

/** How a process is started. */
export interface ProcessStart {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly preamble: Uint8Array<ArrayBuffer> | null;
  /** Most bytes of one linear memory that its engine allows at all. */
  readonly memoryBytes: number;
}

/** What a component is known by in host processes. */
type ComponentId = Pick<TranslatedComponent, "sha256">;

/** How a call ended. */
export type CallEnd =
  /** `answer`: the JSON of an instance that stays, not judged yet; `undefined` for any other call. */
  | { readonly kind: "ok"; readonly result: ToolResult | null; readonly answer?: unknown }
  | { readonly kind: "trap"; readonly reason: string }
  | { readonly kind: "deadline" }
  | { readonly kind: "limit"; readonly what: string }
  | { readonly kind: "missing-export" }
  | { readonly kind: "aborted" }
  /** `started`: whether the guest may have had an effect. */
  | { readonly kind: "crashed"; readonly how: string; readonly started: boolean };

/** What a call is. */
export interface CallRequest {
  readonly spec: ComponentSpec;
  readonly kind: CallKind;
  /** Function of the hook to call; `null` makes its instance. Other kinds have one function. */
  readonly function: string | null;
  readonly input: ToolInput | JsonValue;
  readonly context: CallContext;
  /** Longest time from the call to the guest's entry, in milliseconds. */
  readonly entryBound: number;
}

/** An effect the call's context does not have. */
class Unavailable extends Error {
  override readonly name = "Unavailable";
}

/** What an instance holds at the runtime. */
interface InstanceResources {
  readonly files: ComponentFiles;
  readonly http: ComponentHttp;
}

/** A call in flight. */
interface ActiveCall extends InstanceResources {
  readonly request: CallRequest;
  /** Aborted when the call is over. */
  readonly ended: AbortSignal;
  readonly output: GuestOutput;
  readonly clock: CallClock;
  readonly settle: (end: CallEnd) => void;
  entered: boolean;
  /** Whether a request without its answer is under way; a guest waits for one at a time. */
  asking: boolean;
  timer: { readonly id: number; readonly handle: ReturnType<typeof setTimeout> } | null;
}

/** Kinds of end that the runtime itself brings about by killing the process. */
type KillReason = Extract<CallEnd, { kind: "deadline" | "limit" | "aborted" }>;

/** A clock that runs a budget down and can be stopped. */
class CallClock {
  #left: number;
  #since = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stops = 0;
  #cleared = false;
  readonly #onEnd: () => void;

  constructor(budgetMs: number, onEnd: () => void) {
    this.#left = budgetMs;
    this.#onEnd = onEnd;
  }

  /** Starts with a fresh budget. */
  start(budgetMs: number): void {
    clearTimeout(this.#timer);
    this.#left = budgetMs;
    this.#run();
  }

  stop(): void {
    if (this.#stops++ > 0) return;
    clearTimeout(this.#timer);
    this.#left -= performance.now() - this.#since;
  }

  resume(): void {
    if (--this.#stops === 0) this.#run();
  }

  /** Ends it for good. */
  clear(): void {
    this.#cleared = true;
    clearTimeout(this.#timer);
  }

  #run(): void {
    if (this.#cleared) return;
    this.#since = performance.now();
    // A timer above its bound would fire at once; the budget is then run down in steps.
    this.#timer = setTimeout(() => {
      this.#left -= performance.now() - this.#since;
      if (this.#left > 1) this.#run();
      else this.#onEnd();
    }, Math.min(Math.max(0, this.#left), MAX_TIMER_MS));
  }
}

/** Longest first line of a guard. */
const MAX_WALLS_LINE = 512;

/** One host process. */
export class ComponentProcess {
  readonly memoryBytes: number;
  readonly #child: PipedProcess;
  readonly #decoder = new MessageDecoder(MAX_HOST_MESSAGE_BYTES);
  readonly #modules = new Set<string>();
  readonly #components = new Set<string>();
  /** Walls of the kernel around it, as its guard names them; none without a guard. */
  readonly walls: Promise<readonly Wall[]>;
  #resolveWalls!: (walls: readonly Wall[]) => void;
  /** What came of the guard's first line; `null` once it was read. */
  #wallsLine: string | null = "";
  readonly #ready: Promise<void>;
  #resolveReady!: () => void;
  #isReady = false;
  #lastId = 0;
  /** Who waits for an answered `sync`. */
  readonly #settled: (() => void)[] = [];
  #call: ActiveCall | null = null;
  /** Of the instance that stays; `null`: there is none. */
  #kept: InstanceResources | null = null;
  #dead = false;
  /** Why the runtime killed it, when it did. */
  #killReason: KillReason | null = null;
  #violation: string | null = null;
  /** Settles when the process is gone; never fails. */
  readonly exited: Promise<void>;
  #resolveEnded!: () => void;

  /** @throws {MurError} `E-RUN-001` when the program can't be started. */
  constructor(start: ProcessStart) {
    this.memoryBytes = start.memoryBytes;
    try {
      // Nothing of the host depends on where it stands.
      this.#child = new PipedProcess({ command: start.command, args: start.args, env: start.env, cwd: "/" }, {
        stdout: (bytes) => this.#receive(bytes),
        stdoutEnd: () => this.#resolveEnded(),
        stderr: (bytes) => this.#readErrors(bytes),
        stderrEnd: () => this.#resolveWalls([]),
      });
    } catch (cause) {
      throw new MurError("E-RUN-001", `the component host can't be started: ${reasonOf(cause)}`, { cause });
    }
    this.#ready = new Promise((resolve) => this.#resolveReady = resolve);
    this.walls = new Promise((resolve) => this.#resolveWalls = resolve);
    this.exited = new Promise<void>((resolve) => this.#resolveEnded = resolve).then(() => this.#end());
    if (start.preamble !== null) this.#write([start.preamble]);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Whether it ended or was told to. */
  get dead(): boolean {
    return this.#dead;
  }

  /** Components given to it so far. */
  get loaded(): number {
    return this.#components.size;
  }

  /** Whether the component's code is already there under these limits. */
  has(component: ComponentId, spec: Pick<ComponentSpec, "limits">): boolean {
    return this.#components.has(componentKey(component, spec));
  }

  /**
   * Waits until it serves, at most `bound` milliseconds; `null`: until it does or is gone.
   *
   * @returns whether it does; a process that does not in time is killed.
   */
  async ready(bound: number | null): Promise<boolean> {
    if (this.#isReady) return !this.#dead;
    if (bound === null) {
      await Promise.race([this.#ready, this.exited]);
      return this.#isReady && !this.#dead;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<void>((resolve) => timer = setTimeout(resolve, bound));
    await Promise.race([this.#ready, this.exited, late]);
    clearTimeout(timer);
    if (!this.#isReady) this.kill();
    return this.#isReady && !this.#dead;
  }

  /**
   * Gives it a component's code, as far as it has not got it. Returns at once; the frames are on their way, and the code
   * must stay until {@linkcode inputReleased}.
   *
   * @returns what the component asks for beyond its limits before it even runs.
   */
  load(component: ComponentId, code: Translation, spec: Pick<ComponentSpec, "limits">): MinimumExceeded | null {
    const key = componentKey(component, spec);
    if (this.#components.has(key)) return null;
    const { memoryBytes, tableElements } = spec.limits;
    const listed: [string, string][] = [];
    const modules: [string, readonly Uint8Array[]][] = [];
    for (const module of code.modules) {
      const moduleKey = `${module.sha256}:${memoryBytes}:${tableElements}`;
      listed.push([module.name, moduleKey]);
      if (this.#modules.has(moduleKey)) continue;
      const capped = capModule(module.bytes, memoryBytes, tableElements);
      if ("what" in capped) return capped;
      modules.push([moduleKey, capped]);
    }
    for (const [moduleKey, pieces] of modules) {
      this.#modules.add(moduleKey);
      this.#write(encodeMessageParts(MessageType.module, 0, { key: moduleKey }, pieces));
    }
    this.#components.add(key);
    this.#write(encodeMessageParts(MessageType.component, 0, { key, modules: listed }, [code.glue]));
    return null;
  }

  /** Waits until everything it was given is taken in, or it is gone. */
  async settled(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#settled.push(resolve);
    this.#send(MessageType.sync, 0);
    await Promise.race([promise, this.exited]);
  }

  /** Runs one call of a loaded component. Never fails: how it ended is its value. */
  call(component: ComponentId, request: CallRequest): Promise<CallEnd> {
    const { promise, resolve } = Promise.withResolvers<CallEnd>();
    const { spec, context } = request;
    if (this.#dead) return Promise.resolve({ kind: "crashed", how: "the host process is gone", started: false });
    if (this.#call !== null) throw new Error("a host process runs one call at a time");
    const stays = request.kind === "hook";
    const resources: InstanceResources = this.#kept ?? {
      files: new ComponentFiles(spec.preopens),
      http: new ComponentHttp((type, id, header, body) => this.#send(type, id, header, body), spec.http),
    };
    if (stays) this.#kept = resources;
    const output = new GuestOutput(context.output, request.kind !== "capsule");
    const ended = new AbortController();
    const clock = new CallClock(request.entryBound, () => this.#killFor({ kind: "deadline" }));
    const call: ActiveCall = {
      request,
      ...resources,
      ended: ended.signal,
      output,
      clock,
      settle: (end) => {
        if (this.#call !== call) return;
        this.#call = null;
        clearInterval(resident);
        clock.clear();
        if (call.timer !== null) clearTimeout(call.timer.handle);
        ended.abort();
        if (!stays) release(resources);
        output.finish();
        resolve(end);
      },
      entered: false,
      asking: false,
      timer: null,
    };
    this.#call = call;
    if (context.signal !== undefined) {
      const abort = () => this.#killFor({ kind: "aborted" });
      if (context.signal.aborted) abort();
      else context.signal.addEventListener("abort", abort, { once: true, signal: ended.signal });
    }
    const input = new TextEncoder().encode(JSON.stringify(request.input));
    if (request.function === null) {
      this.#send(stays ? MessageType.open : MessageType.call, 0, {
        key: componentKey(component, spec),
        kind: request.kind,
        exportName: ROLE_EXPORTS[spec.role],
        environment: Object.entries(spec.environment),
        preopens: spec.preopens.map(({ guestPath, writable }, fd) => ({ guestPath, fd, writable })),
        instances: spec.limits.instances,
      }, input);
    } else this.#send(MessageType.callKept, 0, { function: request.function }, input);
    // Behind the call: the first timer of a program takes milliseconds to make.
    clock.start(request.entryBound);
    const resident = setInterval(() => this.#checkResident(request), RESIDENT_CHECK_MS);
    context.sent?.();
    return promise;
  }

  /** Waits until nothing that was given to a process that exited is in use any more. */
  inputReleased(): Promise<void> {
    return this.#child.inputReleased();
  }

  /** Kills it; `exited` settles when it is gone. */
  kill(): void {
    this.#dead = true;
    this.#child.kill();
  }

  #killFor(reason: KillReason): void {
    this.#killReason ??= reason;
    this.kill();
  }

  #checkResident(request: CallRequest): void {
    const bytes = residentBytes(this.pid);
    const { memoryBytes } = request.spec.limits;
    if (bytes === null || bytes <= memoryBytes + ENGINE_ALLOWANCE_BYTES) return;
    this.#killFor({
      kind: "limit",
      what: `resident memory of ${bytes} bytes exceeds capabilities.limits.memory_bytes (${memoryBytes}) ` +
        `and ${ENGINE_ALLOWANCE_BYTES} bytes for the engine`,
    });
  }

  #send(type: number, id: number, header?: Header, body?: Uint8Array): void {
    this.#write([encodeMessage(type, id, header, body)]);
  }

  #write(parts: readonly Uint8Array[]): void {
    if (this.#dead) return;
    for (const part of parts) this.#child.write(part);
  }

  /** A host asks one thing after the other; one that lets the answers pile up would take the runtime's memory. */
  #requireReader(): void {
    if (this.#isReady && this.#child.unwritten > MAX_UNREAD_BYTES) {
      throw new ProtocolViolation("it does not read its answers");
    }
  }

  /** The guard's first line names the walls; what the engine says when it dies is of no use but must not fill the pipe. */
  #readErrors(bytes: Uint8Array): void {
    if (this.#wallsLine === null) return;
    this.#wallsLine += new TextDecoder().decode(bytes);
    if (!this.#wallsLine.includes("\n") && this.#wallsLine.length < MAX_WALLS_LINE) return;
    this.#resolveWalls(parseWalls(this.#wallsLine.split("\n")[0]!) ?? []);
    this.#wallsLine = null;
  }

  #receive(bytes: Uint8Array): void {
    if (this.#violation !== null) return;
    try {
      this.#decoder.push(bytes);
      for (let message = this.#decoder.next(); message !== null; message = this.#decoder.next()) this.#take(message);
    } catch (error) {
      this.#violation = error instanceof ProtocolViolation || error instanceof FrameError
        ? error.message
        : `the runtime failed to answer it: ${reasonOf(error)}`;
      this.kill();
    }
  }

  /** Its output ended. An end of the output without an end of the process would leave one behind. */
  async #end(): Promise<void> {
    this.#dead = true;
    if (this.#kept !== null) release(this.#kept);
    const status = await this.#child.end();
    const call = this.#call;
    if (call !== null) {
      call.settle(this.#killReason ?? { kind: "crashed", how: this.#how(status), started: call.entered });
    }
  }

  #how(status: ExitStatus): string {
    if (this.#violation !== null) return `it broke the protocol (${this.#violation})`;
    return status.signal === null ? `exit code ${status.code}` : `signal ${status.signal}`;
  }

  #active(): ActiveCall {
    if (this.#call === null) throw new ProtocolViolation("a frame outside a call");
    return this.#call;
  }

  /** Ids only rise, so that none stands for two things. */
  #freshId(id: number): void {
    if (id <= this.#lastId) throw new ProtocolViolation("a request id was used before");
    this.#lastId = id;
  }

  #take(message: Message): void {
    const { type, id, header, body } = message;
    switch (type) {
      case MessageType.ready:
        if (this.#isReady) throw new ProtocolViolation("a second greeting");
        this.#isReady = true;
        this.#resolveReady();
        return;
      case MessageType.loaded: {
        const waiting = this.#settled.shift();
        if (waiting === undefined) throw new ProtocolViolation("an answer nobody asked for");
        return waiting();
      }
      case MessageType.entered: {
        const call = this.#active();
        if (call.entered) throw new ProtocolViolation("a second entry");
        call.entered = true;
        call.clock.start(call.request.spec.limits.deadlineSeconds * 1_000);
        return;
      }
      case MessageType.result:
        return this.#finish(this.#active(), header, body);
      case MessageType.request: {
        const call = this.#active();
        this.#freshId(id);
        this.#requireReader();
        if (call.asking) throw new ProtocolViolation("a second request before the first was answered");
        return this.#request(call, id, header, body);
      }
      case MessageType.release:
        return this.#active().files.release(header);
      case MessageType.httpStart:
        this.#freshId(id);
        this.#requireReader();
        return this.#active().http.take(message);
      case MessageType.httpBody:
      case MessageType.httpBodyEnd:
      case MessageType.httpCredit:
      case MessageType.httpClose:
        return this.#active().http.take(message);
      case MessageType.timer: {
        const call = this.#active();
        this.#freshId(id);
        const ms = countField(header, "ms");
        if (call.timer !== null) clearTimeout(call.timer.handle);
        const handle = setTimeout(() => {
          call.timer = null;
          this.#send(MessageType.wake, id);
        }, Math.min(ms, MAX_TIMER_MS));
        call.timer = { id, handle };
        return;
      }
      case MessageType.chunk: {
        const { context } = this.#active().request;
        const text = textBody(body);
        if (textField(header, "kind", 16) === "thinking") context.emitThinkingChunk?.(text);
        else context.emitChunk?.(text);
        return;
      }
      case MessageType.output: {
        const stream = textField(header, "stream", 16);
        if (stream !== "stdout" && stream !== "stderr") throw new ProtocolViolation("an unknown stream");
        return this.#active().output.write(stream, body);
      }
      default:
        throw new ProtocolViolation(`a frame of unknown type ${type}`);
    }
  }

  #request(call: ActiveCall, id: number, header: Header, body: Uint8Array<ArrayBuffer>): void {
    const op = textField(header, "op", 64);
    if (op.startsWith("fs.")) {
      const answer = call.files.handle(op.slice(3), header, body);
      this.#send(MessageType.reply, id, answer.header, answer.body);
      return;
    }
    call.asking = true;
    this.#effect(call, op, header, body).then(
      ({ header, body }) => {
        if (this.#call !== call) return;
        call.asking = false;
        this.#send(MessageType.reply, id, header, body);
      },
      (error: unknown) => {
        if (this.#call !== call) return;
        if (error instanceof ProtocolViolation) {
          this.#violation = error.message;
          this.kill();
          return;
        }
        call.asking = false;
        this.#send(MessageType.reply, id, { error: reasonOf(error).slice(0, 100_000) });
      },
    );
  }

  async #effect(
    call: ActiveCall,
    op: string,
    header: Header,
    body: Uint8Array<ArrayBuffer>,
  ): Promise<{ readonly header: Header; readonly body?: Uint8Array }> {
    const { context, kind } = call.request;
    switch (op) {
      case "request-input": {
        const prompt = textBody(body);
        if (context.requestInput === undefined) throw new Unavailable("request-input is not available here");
        call.clock.stop();
        try {
          return { header: {}, body: new TextEncoder().encode(await context.requestInput(prompt)) };
        } finally {
          call.clock.resume();
        }
      }
      case "invoke": {
        const value = objectBody(body);
        const input = {
          data: optionalTextField(value, "data", MAX_VALUE),
          logPath: optionalTextField(value, "logPath", MAX_VALUE),
        };
        const name = textField(value, "name", MAX_VALUE);
        if (context.invoke === undefined) throw new Unavailable("invoke is not available here");
        const result = await context.invoke(name, input);
        return { header: {}, body: new TextEncoder().encode(JSON.stringify(result)) };
      }
      case "stdin.read": {
        const max = countField(header, "max", 1 << 20);
        if (kind !== "capsule") throw new ProtocolViolation("input was asked for where there is none");
        const bytes = await context.readStdin?.(max) ?? null;
        return bytes === null ? { header: { end: true } } : { header: {}, body: bytes.subarray(0, max) };
      }
      default: {
        const answer = await context.hookImport?.(op, body, call.ended);
        if (answer === undefined) throw new ProtocolViolation(`an unknown request '${op}'`);
        return { header: {}, body: new TextEncoder().encode(JSON.stringify(answer)) };
      }
    }
  }

  #finish(call: ActiveCall, header: Header, body: Uint8Array): void {
    const { memoryBytes, tableElements, instances } = call.request.spec.limits;
    call.output.dropped(countField(header, "dropped"));
    const deniedBytes = countField(header, "deniedPages") * 65_536;
    const deniedElements = countField(header, "deniedElements");
    const how = textField(header, "end", 32);
    // A growth beyond the guest's own declared maximum, or one the machine refused, is not the limit's doing.
    const limit = how === "instances"
      ? `instance count ${countField(header, "asked")} exceeds capabilities.limits.instances (${instances})`
      : deniedBytes > memoryBytes
      ? memoryLimitText(deniedBytes, memoryBytes)
      : deniedElements > tableElements
      ? tableLimitText(deniedElements, tableElements)
      : null;
    // The instance can't be entered again, and what is left of it is not to be trusted.
    if (how !== "ok") this.kill();
    switch (how) {
      case "ok":
        if (!call.entered) throw new ProtocolViolation("a result before the entry");
        return call.settle(okEnd(call.request.kind, body));
      case "instances":
        return call.settle({ kind: "limit", what: limit! });
      case "missing-export":
        return call.settle({ kind: "missing-export" });
      case "exit": {
        const status = countField(header, "status", 255);
        if (limit !== null) return call.settle({ kind: "limit", what: limit });
        if (call.request.kind === "capsule" && status === 0) return call.settle({ kind: "ok", result: null });
        return call.settle({ kind: "trap", reason: `it exited with status ${status} without a result` });
      }
      case "trap": {
        const reason = textField(header, "reason", 10_000);
        return call.settle(limit === null ? { kind: "trap", reason } : { kind: "limit", what: limit });
      }
      default:
        throw new ProtocolViolation(`an unknown end '${how}'`);
    }
  }
}

function release({ files, http }: InstanceResources): void {
  http[Symbol.dispose]();
  files[Symbol.dispose]();
}

function okEnd(kind: CallKind, body: Uint8Array): CallEnd {
  switch (kind) {
    case "tool":
      return { kind: "ok", result: toolResultOf(body) };
    case "capsule":
      return { kind: "ok", result: null };
    case "hook":
      return { kind: "ok", result: null, answer: jsonBody(body) };
  }
}

/** Text of a refused growth (spec containment 15). */
export function memoryLimitText(asked: number, limit: number): string {
  return `linear memory growth to ${asked} bytes exceeds capabilities.limits.memory_bytes (${limit})`;
}

/** Text of a refused growth (spec containment 15). */
export function tableLimitText(asked: number, limit: number): string {
  return `table growth to ${asked} elements exceeds capabilities.limits.table_elements (${limit})`;
}

function componentKey(component: ComponentId, spec: Pick<ComponentSpec, "limits">): string {
  return `${component.sha256}:${spec.limits.memoryBytes}:${spec.limits.tableElements}`;
}

function toolResultOf(body: Uint8Array): ToolResult {
  const value = objectBody(body);
  const status = textField(value, "status", 16);
  if (status !== "passed" && status !== "failed" && status !== "error") {
    throw new ProtocolViolation("a result with an unknown status");
  }
  return {
    status,
    summary: optionalTextField(value, "summary", MAX_VALUE),
    data: optionalTextField(value, "data", MAX_VALUE),
    dataPath: optionalTextField(value, "dataPath", MAX_VALUE),
    truncated: flagField(value, "truncated"),
    metadata: pairsField(value, "metadata", 1_000_000, MAX_VALUE),
  };
}
