/**
 * The fence around content that nobody trusted wrote: it marks, it neither removes nor refuses anything (spec components
 * 8.9, session 14.2).
 *
 * A reader ends a block at the **last** closing marker of the message; every marker inside the content is made
 * unrecognisable, so there is no other.
 *
 * @module
 */

/** Inserted right after the `<` of a marker inside the content. */
const NEUTRALISER = "!MURMUR-NEUTRALISED!";

/**
 * The start of an opening or closing marker in any letter case. Without the `u` flag the match folds ASCII letters only.
 */
const MARKER = /<(?=\/?untrusted-content)/gi;

/** Where content comes from, as its fence names it: `tool:<name>`, `task:<origin>`, `member:<name>`, `delegation:<capsule>`. */
export function fenceSource(kind: "tool" | "task" | "member" | "delegation", name: string): string {
  return `${kind}:${name}`.replaceAll(">", "_").replace(/[\r\n]/g, " ");
}

/** Makes every marker in a text unrecognisable, by insertion only. Doing it again changes nothing. */
export function neutraliseMarkers(content: string): string {
  return content.replace(MARKER, `<${NEUTRALISER}`);
}

/** Content inside its fence. `source` is from {@linkcode fenceSource}. */
export function fence(source: string, content: string): string {
  return `<untrusted-content source=${source}>\n${neutraliseMarkers(content)}\n</untrusted-content>`;
}
