/**
 * Where a path leads that need not exist yet.
 *
 * @module
 */
import { parentDirectory } from "../base/paths.ts";

/** Where an absolute path leads, or would once it is there: links are followed as far as it exists. */
export function canonicalPlace(path: string): string {
  const missing: string[] = [];
  for (let at = path;; at = parentDirectory(at)) {
    try {
      const real = Deno.realPathSync(at);
      return missing.reduceRight((above, name) => above === "/" ? `/${name}` : `${above}/${name}`, real);
    } catch {
      if (at === "/") return path;
      missing.push(at.slice(at.lastIndexOf("/") + 1));
    }
  }
}
