/**
 * Tables on standard output: columns two spaces apart, padded to their widest cell, nothing after the last.
 *
 * @module
 */
import type { TextOutput } from "./context.ts";

/** Control characters, which a cell of somebody else's making could use to change the terminal. */
// deno-lint-ignore no-control-regex
const CONTROL = /[\x00-\x1f\x7f-\x9f]/g;

/** Prints a header and rows of as many cells. */
export function printTable(
  output: Pick<TextOutput, "line">,
  header: readonly string[],
  rows: readonly (readonly string[])[],
): void {
  const lines = [header, ...rows].map((row) => row.map((cell) => cell.replace(CONTROL, " ")));
  const widths = header.map((_, column) => lines.reduce((most, row) => Math.max(most, [...row[column]!].length), 0));
  for (const row of lines) {
    const cells = row.map((cell, column) => `${cell}${" ".repeat(widths[column]! - [...cell].length)}`);
    output.line(cells.join("  ").trimEnd());
  }
}
