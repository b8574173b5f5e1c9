/**
 * What the rest of the runtime knows of WASM components: how one is described, called and ended (spec components 3).
 * The implementation runs each in a process without any permission and answers its every effect.
 *
 * @module
 */
import type { ComponentLimits } from "../../artifact/manifest/capsule_manifest.ts";
import type { JsonValue } from "../../base/json_value.ts";
import type { RootedDir } from "../../base/rooted_dir.ts";

/** `status` of a tool result (WIT `murmur:tool/run`). */
export type ToolStatus = "passed" | "failed" | "error";

/** WIT `tool-input`. */
export interface ToolInput {
  readonly data: string | null;
  readonly logPath: string | null;
}

/** WIT `tool-result`. */
export interface ToolResult {
  readonly status: ToolStatus;
  readonly summary: string | null;
  readonly data: string | null;
  readonly dataPath: string | null;
  readonly truncated: boolean;
  readonly metadata: readonly (readonly [string, string])[];
}

/** One directory a component sees. */
export interface Preopen {
  /** `.`, `state` or `murmur-runtime`. */
  readonly guestPath: string;
  readonly root: RootedDir;
  readonly writable: boolean;
}

/** A transpiled component, keyed by the SHA-256 of its bytes. */
export interface CompiledComponent {
  readonly sha256: string;
  /** Versioned interface names, sorted. */
  readonly imports: readonly string[];
  readonly exports: readonly string[];
}

/** The request a guest sent, after the headers only a runtime may send were dropped (spec components 3.6). */
export interface GuestRequest {
  readonly method: string;
  readonly url: URL;
  /** Lower-cased names, in order, duplicates kept. */
  readonly headers: readonly (readonly [string, string])[];
  /** `null`: no body. */
  readonly body: ReadableStream<Uint8Array> | null;
  /** Aborted when the guest dropped the request or its process ended. */
  readonly signal: AbortSignal;
  /** Settles after the body's end: the trailers, `null` when there are none. Absent without a body. */
  readonly trailers?: Promise<readonly (readonly [string, string])[] | null>;
  /** The guest's limit for the connection, in milliseconds. */
  readonly connectTimeoutMs?: number;
}

/** What goes back to the guest. */
export interface GuestResponse {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: ReadableStream<Uint8Array>;
  /** Read after the body's end: the trailers, `null` when there are none. Absent: there are none. */
  readonly trailers?: Promise<readonly (readonly [string, string])[] | null>;
}

/** Sends a guest's request or refuses it; the policy of one artifact (rules, gateway) is bound in it. */
export type OutgoingHttp = (request: GuestRequest) => Promise<GuestResponse>;

/** Why a guest's request failed, as the WASI HTTP error code the guest sees. */
export class OutgoingHttpError extends Error {
  override readonly name = "OutgoingHttpError";
  /** Case name of `wasi:http/types.error-code`, e.g. `HTTP-request-denied`, `connection-refused`. */
  readonly wasiCode: string;
  constructor(wasiCode: string, message: string) {
    super(message);
    this.wasiCode = wasiCode;
  }
}

/** One staged artifact, ready to be called. Immutable. */
export interface ComponentSpec {
  /** Bare artifact name; for a script capsule its own name. */
  readonly name: string;
  readonly role: "tool" | "driver" | "capsule" | "hook";
  readonly compiled: CompiledComponent;
  readonly environment: Readonly<Record<string, string>>;
  readonly preopens: readonly Preopen[];
  readonly http: OutgoingHttp;
  readonly limits: ComponentLimits;
  /** False for an artifact with a gateway, a state store or a config of its own (spec components 3.9, rule 2). */
  readonly sharesProcess: boolean;
}

/** What one call may do beside files and HTTP. Absent members: the import answers that it is not available. */
export interface CallContext {
  readonly emitChunk?: (text: string) => void;
  readonly emitThinkingChunk?: (text: string) => void;
  /** Resolves with the person's reply; the call's deadline stands still meanwhile. */
  readonly requestInput?: (prompt: string) => Promise<string>;
  /** `murmur:tool-registry/invoke`; a string rejection is the guest's `err`. */
  readonly invoke?: (name: string, input: ToolInput) => Promise<ToolResult>;
  /** One line of guest output, without its newline. */
  readonly output?: (stream: "stdout" | "stderr", line: string) => void;
  /**
   * Hooks: answers one of their imports with a JSON value; a rejection's text is the guest's `err`, `undefined` says that
   * there is no such import. `ended` is aborted when the call is over.
   */
  readonly hookImport?: (name: string, body: Uint8Array, ended: AbortSignal) => Promise<JsonValue | undefined>;
  /** Script capsules: bytes of the runtime's own stdin, on demand; `null` at its end. */
  readonly readStdin?: (maxBytes: number) => Promise<Uint8Array | null>;
  /** Ends the call: the process is killed. */
  readonly signal?: AbortSignal;
  /** Called once the call is on its way: until the guest asks for something, this thread is free. */
  readonly sent?: () => void;
}

/** How a call that gave no result ended (spec components 3.8). */
export type ComponentFailureKind =
  | "deadline"
  | "limit"
  | "trap"
  | "crashed"
  | "missing-export"
  | "missing-import"
  | "aborted";

/** A call without a result; `message` is the text of spec components 3.8. */
export class ComponentFailure extends Error {
  override readonly name = "ComponentFailure";
  readonly kind: ComponentFailureKind;
  constructor(kind: ComponentFailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** An instance in a process of its own, that lives until it is closed or lost (spec components 3.2). */
export interface SessionInstance {
  /** Names of the functions of its interface, in lower camel case. */
  readonly functions: ReadonlySet<string>;
  /** Its process is gone: by a deadline, a limit, a trap, or from outside. It is not made anew. */
  readonly lost: boolean;
  /**
   * Calls a function; one call at a time.
   *
   * @returns `{"ok": …}` or `{"err": …}`, as the function's result is; its shape is the host's word and to be judged.
   * @throws {ComponentFailure} The instance is lost then.
   */
  call(name: string, event: JsonValue, context: CallContext): Promise<unknown>;
  close(): void;
}

/** The component side of one launch. */
export interface ComponentRuntime {
  /**
   * Transpiles a component, or takes it from the cache `~/.murmur/compiled/`.
   *
   * @throws {MurError} `E-RUN-001` when it is no component or does not compile, `E-RUN-002` when it imports an
   * interface that is not served.
   */
  compile(bytes: Uint8Array, subject: string): Promise<CompiledComponent>;
  /**
   * The same for the component of a verified archive. One that was translated before is taken from the cache by the
   * archive's hash, without being unpacked.
   */
  compileArchived(
    archiveSha256: string,
    unpack: () => Promise<Uint8Array>,
    subject: string,
  ): Promise<CompiledComponent>;
  /** Tells that a component will be called soon, so that its code is in place by then. */
  expect(compiled: CompiledComponent, limits: ComponentLimits): void;
  /** The launch is over: from now on processes that nobody calls for a while are let go, the reserve too. */
  letGoWhenIdle(): void;
  /** Calls `murmur:tool/run`. @throws {ComponentFailure} */
  callTool(spec: ComponentSpec, input: ToolInput, context: CallContext): Promise<ToolResult>;
  /** Calls `murmur:capsule/run` once. @throws {ComponentFailure} */
  runCapsule(spec: ComponentSpec, context: CallContext): Promise<void>;
  /** Makes an instance of a hook. @throws {ComponentFailure} */
  openInstance(spec: ComponentSpec, context: CallContext): Promise<SessionInstance>;
  /** Walls around the component host, for the scope report (spec trace 5.2 `component_host`). */
  walls(): Promise<readonly string[]>;
  /** Settles when the code that the last launch called first is on its way to a host. Never fails. */
  readonly foreseen: Promise<void>;
  /** Kills every process and waits until they are gone. */
  close(): Promise<void>;
}
