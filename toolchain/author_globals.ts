/**
 * The global declarations an author's file is checked against: ECMAScript and the guest library, no DOM. Each stands for
 * its implementation in `guest/`, so the two cannot drift apart.
 *
 * @module
 */

/** Text of a declaration file that lies beside the modules of `guest/`. */
export const AUTHOR_GLOBALS = `
import type * as abort from "./abort.ts";
import type { BodyInit as Body } from "./body.ts";
import type { console as guestConsole } from "./console.ts";
import type * as loop from "./event_loop.ts";
import type * as http from "./fetch.ts";
import type * as headers from "./headers.ts";
import type { performance as guestPerformance } from "./performance.ts";
import type { crypto as guestCrypto } from "./random.ts";
import type * as streams from "./readable_stream.ts";
import type { structuredClone as guestStructuredClone } from "./structured_clone.ts";

declare global {
  const AbortController: typeof abort.AbortController;
  type AbortController = abort.AbortController;
  const AbortSignal: typeof abort.AbortSignal;
  type AbortSignal = abort.AbortSignal;
  type BodyInit = Body;
  const Headers: typeof headers.Headers;
  type Headers = headers.Headers;
  type HeadersInit = headers.HeadersInit;
  const ReadableStream: typeof streams.ReadableStream;
  type ReadableStream<T = Uint8Array> = streams.ReadableStream<T>;
  const Request: typeof http.Request;
  type Request = http.Request;
  type RequestInit = http.RequestInit;
  const Response: typeof http.Response;
  type Response = http.Response;
  type ResponseInit = http.ResponseInit;
  const clearInterval: typeof loop.clearTimeout;
  const clearTimeout: typeof loop.clearTimeout;
  const console: typeof guestConsole;
  const crypto: typeof guestCrypto;
  const fetch: typeof http.fetch;
  const performance: typeof guestPerformance;
  const queueMicrotask: typeof loop.queueMicrotask;
  const setInterval: typeof loop.setInterval;
  const setTimeout: typeof loop.setTimeout;
  const structuredClone: typeof guestStructuredClone;

  function atob(data: string): string;
  function btoa(data: string): string;

  class DOMException extends Error {
    constructor(message?: string, name?: string);
    readonly code: number;
  }

  class TextEncoder {
    readonly encoding: string;
    encode(input?: string): Uint8Array<ArrayBuffer>;
    encodeInto(source: string, destination: Uint8Array): { read: number; written: number };
  }

  class TextDecoder {
    constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
    readonly encoding: string;
    readonly fatal: boolean;
    readonly ignoreBOM: boolean;
    decode(input?: ArrayBuffer | ArrayBufferView, options?: { stream?: boolean }): string;
  }

  class URL {
    constructor(url: string | URL, base?: string | URL);
    static canParse(url: string | URL, base?: string | URL): boolean;
    static parse(url: string | URL, base?: string | URL): URL | null;
    href: string;
    readonly origin: string;
    protocol: string;
    username: string;
    password: string;
    host: string;
    hostname: string;
    port: string;
    pathname: string;
    search: string;
    readonly searchParams: URLSearchParams;
    hash: string;
    toString(): string;
    toJSON(): string;
  }

  class URLSearchParams {
    constructor(init?: string | Iterable<readonly [string, string]> | Record<string, string> | URLSearchParams);
    readonly size: number;
    append(name: string, value: string): void;
    delete(name: string, value?: string): void;
    get(name: string): string | null;
    getAll(name: string): string[];
    has(name: string, value?: string): boolean;
    set(name: string, value: string): void;
    sort(): void;
    forEach(callback: (value: string, name: string, params: URLSearchParams) => void): void;
    entries(): IterableIterator<[string, string]>;
    keys(): IterableIterator<string>;
    values(): IterableIterator<string>;
    [Symbol.iterator](): IterableIterator<[string, string]>;
    toString(): string;
  }

  interface SymbolConstructor {
    readonly asyncIterator: unique symbol;
  }
}
`;
