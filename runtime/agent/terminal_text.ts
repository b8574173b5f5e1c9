/**
 * Text of a model or a tool on its way to a terminal: control characters are shown, never obeyed (spec session 9.9).
 *
 * @module
 */

/**
 * C0 and C1 controls and DEL, less newline and tab; and the characters that reorder or hide text around them (bidirectional
 * controls, line and paragraph separators, zero-width spaces and joiners that have no width of their own).
 */
// deno-lint-ignore no-control-regex
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Replaces every control character but newline and tab by an escape a reader knows: `\x1b`, `\r`, `\u202e`. */
export function escapeControls(text: string): string {
  return text.replace(CONTROLS, (character) => {
    const code = character.charCodeAt(0);
    if (code === 0x0d) return "\\r";
    const hex = code.toString(16);
    return code <= 0xff ? `\\x${hex.padStart(2, "0")}` : `\\u${hex.padStart(4, "0")}`;
  });
}
