/**
 * Puts the guest library's web APIs on the global object of a component. What authors see of it is
 * declared in `toolchain/author_globals.ts`.
 *
 * @module
 */
import { TextDecoder, TextEncoder } from "@exodus/bytes/encoding-lite.js";
import { URL, URLSearchParams } from "whatwg-url-minimum";
import { AbortController, AbortSignal } from "./abort.ts";
import { console } from "./console.ts";
import { clearTimeout, onUncaught, queueMicrotask, setInterval, setTimeout } from "./event_loop.ts";
import { fetch, Request, Response } from "./fetch.ts";
import { Headers } from "./headers.ts";
import { performance } from "./performance.ts";
import { GuestPromise } from "./promise.ts";
import { crypto, random } from "./random.ts";
import { ReadableStream } from "./readable_stream.ts";
import { structuredClone } from "./structured_clone.ts";

// Published under the names authors know, so that `error.constructor.name` and `String(Response)` read right.
const classes: Readonly<Record<string, object>> = {
  AbortController,
  AbortSignal,
  Headers,
  Promise: GuestPromise,
  ReadableStream,
  Request,
  Response,
  TextDecoder,
  TextEncoder,
  URL,
  URLSearchParams,
};

const others: Readonly<Record<string, unknown>> = {
  clearInterval: clearTimeout,
  clearTimeout,
  console,
  crypto,
  fetch,
  performance,
  queueMicrotask,
  setInterval,
  setTimeout,
  structuredClone,
};

/** Installs everything; called once, while the component is built. */
export function installGlobals(): void {
  for (const [name, value] of Object.entries(classes)) {
    Object.defineProperty(value, "name", { value: name, configurable: true });
    define(name, value);
  }
  for (const [name, value] of Object.entries(others)) define(name, value);
  Object.defineProperty(Math, "random", { value: random, writable: true, configurable: true });
  // It would hand out promises of the engine, whose reactions never run.
  Reflect.deleteProperty(Array, "fromAsync");
  onUncaught((error) => console.error("uncaught:", error));
}

function define(name: string, value: unknown): void {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
}
