/**
 * The interfaces a guest imports, as the engine shows them to JavaScript: lower camel case names, `u64` as `number`,
 * `option` as `null`, `result` as return value or thrown object whose `payload` is the error (spec components 2, 3.1).
 *
 * A component's entry installs them with {@linkcode installHost}; nothing in the guest library imports them itself, so
 * every module of it also runs outside a component, under test.
 *
 * @module
 */

/** A handle that can be given back before the collector finds it. */
export interface Resource {
  [Symbol.dispose]?(): void;
}

/** `wasi:io/poll.pollable`. */
export interface Pollable extends Resource {
  ready(): boolean;
  block(): void;
}

/** `wasi:io/streams.input-stream`. */
export interface InputStream extends Resource {
  read(length: number): Uint8Array;
  blockingRead(length: number): Uint8Array;
  subscribe(): Pollable;
}

/** `wasi:io/streams.output-stream`. */
export interface OutputStream extends Resource {
  checkWrite(): number;
  write(contents: Uint8Array): void;
  flush(): void;
  blockingFlush(): void;
  blockingWriteAndFlush(contents: Uint8Array): void;
  subscribe(): Pollable;
}

/** A variant of the component model. */
export interface Variant {
  readonly tag: string;
  readonly val?: unknown;
}

/** `wasi:http/types.fields`. */
export interface Fields extends Resource {
  append(name: string, value: Uint8Array): void;
  entries(): [string, Uint8Array][];
}

/** `wasi:http/types.outgoing-body`. */
export interface OutgoingBody extends Resource {
  write(): OutputStream;
}

/** `wasi:http/types.outgoing-request`. */
export interface OutgoingRequest extends Resource {
  body(): OutgoingBody;
  setMethod(method: Variant): void;
  setPathWithQuery(path: string | null): void;
  setScheme(scheme: Variant | null): void;
  setAuthority(authority: string | null): void;
}

/** `wasi:http/types.incoming-body`. */
export interface IncomingBody extends Resource {
  stream(): InputStream;
}

/** `wasi:http/types.incoming-response`. */
export interface IncomingResponse extends Resource {
  status(): number;
  headers(): Fields;
  consume(): IncomingBody;
}

/** `wasi:http/types.future-incoming-response`. */
export interface FutureIncomingResponse extends Resource {
  subscribe(): Pollable;
  /** `null` until it is there; the outer result fails when it was taken before. */
  get(): { tag: "ok" | "err"; val?: { tag: "ok"; val: IncomingResponse } | { tag: "err"; val: Variant } } | null;
}

/** `wasi:filesystem/types.datetime`. */
export interface Datetime {
  readonly seconds: number;
  readonly nanoseconds: number;
}

/** `wasi:filesystem/types.descriptor-stat`. */
export interface DescriptorStat {
  readonly type: string;
  readonly size: number;
  readonly dataModificationTimestamp: Datetime | null;
}

/** `wasi:filesystem/types.directory-entry-stream`. */
export interface DirectoryEntryStream extends Resource {
  readDirectoryEntry(): { type: string; name: string } | null;
}

/** `wasi:filesystem/types.descriptor`. */
export interface Descriptor extends Resource {
  appendViaStream(): OutputStream;
  read(length: number, offset: number): [Uint8Array, boolean];
  write(buffer: Uint8Array, offset: number): number;
  readDirectory(): DirectoryEntryStream;
  createDirectoryAt(path: string): void;
  stat(): DescriptorStat;
  statAt(pathFlags: Record<string, boolean>, path: string): DescriptorStat;
  openAt(
    pathFlags: Record<string, boolean>,
    path: string,
    openFlags: Record<string, boolean>,
    flags: Record<string, boolean>,
  ): Descriptor;
  removeDirectoryAt(path: string): void;
  renameAt(oldPath: string, newDescriptor: Descriptor, newPath: string): void;
  unlinkFileAt(path: string): void;
}

/** `murmur:tool/run.tool-input`. */
export interface WitToolInput {
  readonly data: string | null;
  readonly logPath: string | null;
}

/** `murmur:tool/run.tool-result`. */
export interface WitToolResult {
  readonly status: "passed" | "failed" | "error";
  readonly summary: string | null;
  readonly data: string | null;
  readonly dataPath: string | null;
  readonly truncated: boolean;
  readonly metadata: [string, string][];
}

/** A message as `murmur:hook/lifecycle` has it. */
interface WitMessage {
  readonly role: string;
  readonly content: string;
  readonly id: string | null;
  readonly sourceId: string | null;
  readonly insertedBy: "replace-context" | "seed-context" | null;
}

/** `murmur:task-io/read.task-input-form`. */
type WitInputForm = "as-given" | "original";

/** What only a hook imports. */
interface HookImports {
  readonly inference: {
    runInference(
      request: { readonly messages: WitMessage[]; readonly systemPrompt: string | null; readonly model: string | null },
    ): {
      readonly text: string;
      readonly modelUsed: string;
      readonly inputTokens: number;
      readonly outputTokens: number;
    };
  };
  readonly tokens: { count(text: string): number };
  readonly taskIo: {
    inputLen(form: WitInputForm): number;
    readInput(form: WitInputForm, offset: number, maxBytes: number): string;
    outputLen(): number;
    readOutput(offset: number, maxBytes: number): string;
  };
  readonly conversation: {
    readMessages(
      cursor: string | null,
      limit: number,
    ): { readonly messages: WitMessage[]; readonly nextCursor: string | null; readonly total: number };
  };
}

/** Every import of the fixed worlds; the last four depend on the role. */
export interface Host {
  readonly environment: { getEnvironment(): [string, string][] };
  readonly stdin: { getStdin(): InputStream };
  readonly stdout: { getStdout(): OutputStream };
  readonly stderr: { getStderr(): OutputStream };
  readonly monotonicClock: { now(): number; subscribeDuration(nanoseconds: number): Pollable };
  readonly preopens: { getDirectories(): [Descriptor, string][] };
  readonly httpTypes: {
    readonly Fields: new () => Fields;
    readonly OutgoingRequest: new (headers: Fields) => OutgoingRequest;
    readonly OutgoingBody: { finish(body: OutgoingBody, trailers: Fields | null): void };
  };
  readonly outgoingHandler: { handle(request: OutgoingRequest, options: null): FutureIncomingResponse };
  readonly poll: { poll(pollables: Pollable[]): ArrayLike<number> };
  readonly random: { getRandomBytes(length: number): Uint8Array };
  readonly task?: { requestInput(prompt: string): string };
  readonly chunks?: { emitChunk(text: string): void; emitThinkingChunk(text: string): void };
  readonly toolRegistry?: { invoke(name: string, input: WitToolInput): WitToolResult };
  readonly hook?: HookImports;
}

let installed: Host | null = null;

/** Makes the imports reachable; called once per instance, before the author's code runs. */
export function installHost(host: Host): void {
  installed = host;
}

/** The imports of this instance. */
export function host(): Host {
  if (installed === null) throw new Error("the host is not reachable before the component is called");
  return installed;
}

/** Error payload of a failed import call, or `undefined` when the thrown value is no such error. */
export function payloadOf(error: unknown): unknown {
  return typeof error === "object" && error !== null && "payload" in error ? error.payload : undefined;
}

/**
 * A text as an import or the result takes it. Half a surrogate pair, which a cut emoji leaves, becomes U+FFFD: the engine
 * ends the component on it.
 */
export function wellFormed(text: string): string {
  return text.toWellFormed();
}

/** Gives a handle back at once. */
export function dispose(resource: Resource | null): void {
  resource?.[Symbol.dispose]?.();
}
