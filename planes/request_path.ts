/**
 * From the raw path of a request to a path below an export root: the steps of the seed's path resolution that touch no
 * file. Pure; the raw text is what is judged, never what a URL parser made of it.
 *
 * Decided here where the seed leaves it open: what is malformed (a `%` without two hex digits) or not UTF-8 (overlong forms
 * such as `%c0%ae` among it) names nothing; a backslash is a character like any other; a slash at the end makes an empty last
 * component; what is encoded twice is decoded once and then means the text with the `%` in it. A name or path longer than any file's names
 * nothing either; the kernel tells.
 *
 * @module
 */
import { percentDecode } from "../base/percent_encoding.ts";
import { type PlaneRefusal, refusal } from "./plane_refusal.ts";

/** Step 1 and 2: the decoded path, or why it is refused without a look at the file system. */
export function requestedPath(
  encoded: string,
): { readonly path: string } | PlaneRefusal<"not_found" | "outside_root"> {
  const path = percentDecode(encoded);
  if (path === null) return refusal("not_found", "the path is malformed: it is not percent-encoded UTF-8");
  return judgePath(path) ?? { path };
}

/** Step 2 of a path that is decoded; `null` lets it pass. */
export function judgePath(path: string): PlaneRefusal<"outside_root"> | null {
  if (path === "") return refusal("outside_root", "the path is empty");
  if (path.startsWith("/")) return refusal("outside_root", "the path is absolute");
  if (path.includes("\0")) return refusal("outside_root", "the path holds a NUL byte");
  for (const component of path.split("/")) {
    if (component === "" || component === "." || component === "..") {
      return refusal("outside_root", `the path has a component '${component}'`);
    }
  }
  return null;
}
