/**
 * Puts the guest library's web APIs on the global object of a component. `globals.d.ts` declares exactly this list for
 * authors.
 *
 * @module
 */
import { TextDecoder, TextEncoder } from "@exodus/bytes/encoding-lite.js";
import { URL, URLSearchParams } from "whatwg-url-minimum";
import { GuestAbortController, GuestAbortSignal } from "./abort.ts";
import { guestConsole } from "./console.ts";
import { clearTimeout, monotonicMs, onUncaught, queueMicrotask, setInterval, setTimeout } from "./event_loop.ts";
import { guestFetch, GuestRequest, GuestResponse } from "./fetch.ts";
import { GuestHeaders } from "./headers.ts";
import { GuestPromise } from "./promise.ts";
import { guestCrypto, guestRandom } from "./random.ts";
import { GuestReadableStream } from "./readable_stream.ts";
import { guestStructuredClone } from "./structured_clone.ts";

let origin: number | null = null;

const performance = {
  /** Milliseconds since the first use in this instance. */
  now(): number {
    const now = monotonicMs();
    origin ??= now;
    return now - origin;
  },
};

// Published under the names authors know, so that `error.constructor.name` and `String(Response)` read right.
const classes: Readonly<Record<string, object>> = {
  AbortController: GuestAbortController,
  AbortSignal: GuestAbortSignal,
  Headers: GuestHeaders,
  Promise: GuestPromise,
  ReadableStream: GuestReadableStream,
  Request: GuestRequest,
  Response: GuestResponse,
  TextDecoder,
  TextEncoder,
  URL,
  URLSearchParams,
};

const others: Readonly<Record<string, unknown>> = {
  clearInterval: clearTimeout,
  clearTimeout,
  console: guestConsole,
  crypto: guestCrypto,
  fetch: guestFetch,
  performance,
  queueMicrotask,
  setInterval,
  setTimeout,
  structuredClone: guestStructuredClone,
};

/** Names this library adds or replaces on the global object. */
export const GLOBAL_NAMES: readonly string[] = [...Object.keys(classes), ...Object.keys(others)].sort();

/** Installs everything; called once, while the component is built. */
export function installGlobals(): void {
  for (const [name, value] of Object.entries(classes)) {
    Object.defineProperty(value, "name", { value: name, configurable: true });
    define(name, value);
  }
  for (const [name, value] of Object.entries(others)) define(name, value);
  Object.defineProperty(Math, "random", { value: guestRandom, writable: true, configurable: true });
  // It would hand out promises of the engine, whose reactions never run.
  Reflect.deleteProperty(Array, "fromAsync");
  onUncaught((error) => guestConsole.error("uncaught:", error));
}

function define(name: string, value: unknown): void {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
}
