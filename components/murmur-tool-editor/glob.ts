/**
 * Glob patterns: `*`, `?`, `**`, `[a-z]`, `{a,b}`, on paths with `/`. `*` and `?` do not match a leading dot or a slash.
 *
 * @module
 */

function literal(character: string): string {
  return character.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

/** The closing bracket of the class that opens at `start`, or -1 when it is none. */
function classEnd(pattern: string, start: number): number {
  // A bracket that comes first belongs to the class.
  const from = pattern[start + 1] === "!" || pattern[start + 1] === "^" ? start + 3 : start + 2;
  return pattern.indexOf("]", from);
}

/** A regular expression that matches whole paths. */
export function globPattern(pattern: string): RegExp {
  let source = "";
  let depth = 0;
  let atStart = true;
  for (let i = 0; i < pattern.length; i++) {
    const character = pattern[i] ?? "";
    const noDot = atStart ? "(?!\\.)" : "";
    atStart = false;
    if (character === "*") {
      if (pattern[i + 1] !== "*") source += `${noDot}[^/]*`;
      else {
        const whole = (i === 0 || pattern[i - 1] === "/") && (i + 2 === pattern.length || pattern[i + 2] === "/");
        i++;
        if (whole && pattern[i + 1] === "/") {
          source += "(?:(?!\\.)[^/]+/)*";
          i++;
          atStart = true;
        } else source += whole ? "(?:(?!\\.)[^/]+(?:/(?!\\.)[^/]+)*)?" : `${noDot}[^/]*`;
      }
    } else if (character === "?") source += `${noDot}[^/]`;
    else if (character === "[") {
      const end = classEnd(pattern, i);
      if (end === -1) source += "\\[";
      else {
        const body = pattern.slice(i + 1, end).replace(/\\/g, "\\\\").replace(/^[!^]/, "^").replace(/[\]&~|]/g, "\\$&");
        source += `(?!/)[${body}]`;
        i = end;
      }
    } else if (character === "{" && pattern.indexOf("}", i) !== -1) {
      source += "(?:";
      depth++;
    } else if (character === "}" && depth > 0) {
      source += ")";
      depth--;
    } else if (character === "," && depth > 0) source += "|";
    else if (character === "/") {
      source += "/";
      atStart = true;
    } else if (character === "\\" && i + 1 < pattern.length) source += literal(pattern[++i] ?? "");
    else source += literal(character);
  }
  return new RegExp(`^${source}${")".repeat(depth)}$`, "u");
}
