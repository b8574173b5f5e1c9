/**
 * Where the main file of an npm package lies on disk, for packages whose text is read rather than run.
 *
 * @module
 */

// The loader resolves only what the module graph names. These imports name the packages and are never called.
const _GRAPH = [
  () => import("@exodus/bytes/encoding-lite.js"),
  () => import("eventsource-parser"),
  () => import("typescript"),
  () => import("whatwg-url-minimum"),
];

/** Main file of a package named in the program's import map. */
export function packageFile(specifier: string): URL {
  const mapped = import.meta.resolve(specifier);
  return new URL(mapped.startsWith("npm:") ? import.meta.resolve(mapped) : mapped);
}
