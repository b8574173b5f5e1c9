/**
 * Lines that match a regular expression, with lines around them, as `grep -n` shows them.
 *
 * @module
 */

/** One line of a search's output: a match, or a line beside one. */
export interface FoundLine {
  /** From 1. */
  readonly line: number;
  readonly text: string;
  readonly match: boolean;
}

const MAX_LINE = 500;

function shortened(text: string): string {
  return text.length <= MAX_LINE ? text : `${text.slice(0, MAX_LINE)} … (${text.length} characters)`;
}

/**
 * Groups of lines: matches with their context, groups that touch joined.
 *
 * @param limit Most matches.
 */
export function searchText(text: string, pattern: RegExp, context: number, limit: number): FoundLine[][] {
  const lines = text.split("\n").map((line) => line.replace(/\r$/, ""));
  // A final newline ends the last line; what follows it is none.
  if (lines.at(-1) === "") lines.pop();
  const matches: number[] = [];
  for (let i = 0; i < lines.length && matches.length < limit; i++) {
    pattern.lastIndex = 0;
    if (pattern.test(lines[i] ?? "")) matches.push(i);
  }
  const groups: FoundLine[][] = [];
  let shownTo = -1;
  for (const match of matches) {
    const from = Math.max(match - context, shownTo + 1);
    const to = Math.min(match + context, lines.length - 1);
    if (groups.length === 0 || from > shownTo + 1) groups.push([]);
    const group = groups.at(-1) ?? [];
    for (let i = from; i <= to; i++) {
      group.push({ line: i + 1, text: shortened(lines[i] ?? ""), match: matches.includes(i) });
    }
    shownTo = Math.max(shownTo, to);
  }
  return groups;
}

/** Groups as text: `path:12:line` for a match, `path-13-line` beside one, `--` between groups with context. */
export function formatGroups(path: string, groups: readonly (readonly FoundLine[])[], context: number): string[] {
  return groups.flatMap((group, index) => [
    ...(index > 0 && context > 0 ? ["--"] : []),
    ...group.map(({ line, text, match }) => (match ? `${path}:${line}:${text}` : `${path}-${line}-${text}`)),
  ]);
}
