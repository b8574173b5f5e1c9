/**
 * Headers of an HTTP request that only a runtime may send (spec components 3.6, door 3.5).
 *
 * @module
 */

/** In lower case. A component's own are dropped; no key is ever attached under one of these names. */
export const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  "x-murmur-task-origin",
  "x-murmur-task-trust",
  "x-murmur-delegation-id",
  "x-murmur-completion-session",
]);
