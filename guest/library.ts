/**
 * Entry of the one bundle a component contains of this library: the globals, the exports of each role, and the modules
 * authors import as `murmur/…`.
 *
 * @module
 */
export * as capsule from "./capsule.ts";
export * as driver from "./driver.ts";
export * as environment from "./environment.ts";
export { capsuleExport, driverExport, hookExport, toolExport } from "./exports.ts";
export * as files from "./files.ts";
export * as hook from "./hook.ts";
export { installGlobals } from "./globals.ts";
export { installHost } from "./host.ts";
export * as sse from "./sse.ts";
export * as tool from "./tool.ts";
