/**
 * Changes of a text: exact replacements, and unified diffs of one file.
 *
 * @module
 */

/** One exact replacement. */
export interface Replacement {
  readonly old_text: string;
  readonly new_text: string;
  readonly all?: boolean;
}

/** A change that does not fit the text. */
export class PatchError extends Error {
  override readonly name = "PatchError";
}

function occurrences(text: string, wanted: string): number[] {
  const found: number[] = [];
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + wanted.length)) found.push(at);
  return found;
}

function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split("\n").length;
}

/**
 * Makes replacements in order.
 *
 * @returns The text and how many places were changed.
 * @throws {PatchError} When a text to replace is not there, or is there several times.
 */
export function replaceExactly(text: string, replacements: readonly Replacement[]): { text: string; changes: number } {
  let changes = 0;
  replacements.forEach((replacement, index) => {
    const which = replacements.length === 1 ? "old_text" : `patch[${index}].old_text`;
    const { old_text: old, new_text: replaced } = replacement;
    if (typeof old !== "string" || typeof replaced !== "string") {
      throw new PatchError("every replacement needs old_text and new_text");
    }
    if (old === "") throw new PatchError(`${which} is empty; use write for a new file`);
    const found = occurrences(text, old);
    if (found.length === 0) throw new PatchError(`${which} does not occur in the file; nothing was changed`);
    if (found.length > 1 && replacement.all !== true) {
      const lines = found.slice(0, 10).map((at) => lineOf(text, at)).join(", ");
      throw new PatchError(
        `${which} occurs ${found.length} times, at lines ${lines}; add lines around it, or set all. Nothing was changed`,
      );
    }
    text = text.split(old).join(replaced);
    changes += found.length;
  });
  return { text, changes };
}

interface Hunk {
  /** Line of the old text it starts at, from 1. */
  readonly start: number;
  readonly old: string[];
  readonly new: string[];
  /** Whether the last old or new line is said to have no newline. */
  readonly oldEndsBare: boolean;
  readonly newEndsBare: boolean;
}

function parseHunks(diff: string): Hunk[] {
  const lines = diff.replace(/\r\n/g, "\n").replace(/\n$/, "").split("\n");
  const hunks: Hunk[] = [];
  let headers = 0;
  for (let i = 0; i < lines.length;) {
    const line = lines[i++] ?? "";
    if (line.startsWith("--- ") && (lines[i] ?? "").startsWith("+++ ")) {
      headers++;
      i++;
      continue;
    }
    const header = /^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line);
    if (header === null) continue;
    let oldLeft = Number(header[2] ?? 1);
    let newLeft = Number(header[3] ?? 1);
    const hunk = {
      start: Number(header[1]),
      old: [] as string[],
      new: [] as string[],
      oldEndsBare: false,
      newEndsBare: false,
    };
    while (oldLeft > 0 || newLeft > 0) {
      const body = lines[i++];
      if (body === undefined) throw new PatchError(`the diff ends inside the hunk ${line}`);
      // An empty context line often loses its leading space on the way.
      const mark = body[0] ?? " ";
      const content = body.slice(1);
      if (mark === "\\") continue;
      if (mark === " " || mark === "-") {
        hunk.old.push(content);
        oldLeft--;
      }
      if (mark === " " || mark === "+") {
        hunk.new.push(content);
        newLeft--;
      }
      if (mark !== " " && mark !== "-" && mark !== "+") {
        throw new PatchError(`a line of the hunk ${line} starts with ${JSON.stringify(mark)}`);
      }
      if ((lines[i] ?? "").startsWith("\\")) {
        if (mark !== "+") hunk.oldEndsBare = true;
        if (mark !== "-") hunk.newEndsBare = true;
      }
    }
    hunks.push(hunk);
  }
  if (headers > 1) throw new PatchError("the diff changes several files; give one file at a time");
  if (hunks.length === 0) throw new PatchError("the diff has no hunk (a line starting with @@ -1,2 +1,2 @@)");
  return hunks;
}

function fits(lines: readonly string[], old: readonly string[], at: number): boolean {
  return at >= 0 && at + old.length <= lines.length && old.every((line, index) => lines[at + index] === line);
}

/** The place nearest to the expected one where the old lines are. */
function findHunk(lines: readonly string[], hunk: Hunk, expected: number, from: number): number | null {
  for (let distance = 0; distance <= lines.length; distance++) {
    for (const at of distance === 0 ? [expected] : [expected - distance, expected + distance]) {
      if (at >= from && fits(lines, hunk.old, at)) return at;
    }
  }
  return null;
}

/**
 * Applies a unified diff of one file. Line numbers may be off; the lines themselves must fit. The file's own line ends are
 * kept.
 *
 * @throws {PatchError} When a hunk fits nowhere.
 */
export function applyDiff(text: string, diff: string): { text: string; changes: number } {
  const newline = /\r\n/.test(text) ? "\r\n" : "\n";
  const plain = text.replace(/\r\n/g, "\n");
  let endsBare = plain !== "" && !plain.endsWith("\n");
  const lines = plain === "" ? [] : (endsBare ? plain : plain.slice(0, -1)).split("\n");
  const hunks = parseHunks(diff);
  let shift = 0;
  let from = 0;
  for (const [index, hunk] of hunks.entries()) {
    // A hunk without old lines names the line before it.
    const expected = hunk.start - (hunk.old.length === 0 ? 0 : 1) + shift;
    const at = findHunk(lines, hunk, expected, from);
    if (at === null) {
      throw new PatchError(`hunk ${index + 1} (line ${hunk.start}) does not fit the file; nothing was changed`);
    }
    const reachesEnd = at + hunk.old.length === lines.length;
    lines.splice(at, hunk.old.length, ...hunk.new);
    if (reachesEnd && (hunk.oldEndsBare || hunk.newEndsBare)) endsBare = hunk.newEndsBare;
    shift = at - (hunk.start - (hunk.old.length === 0 ? 0 : 1)) + hunk.new.length - hunk.old.length;
    from = at + hunk.new.length;
  }
  const joined = lines.join("\n") + (lines.length > 0 && !endsBare ? "\n" : "");
  return { text: newline === "\n" ? joined : joined.replace(/\n/g, newline), changes: hunks.length };
}
