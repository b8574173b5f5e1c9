/**
 * A value of a file as a message quotes it: bounded in length and without characters a terminal acts on, since the file
 * may come from somebody else.
 *
 * @module
 */

const MAX_SHOWN = 120;

/** The value, cut to 120 characters, control and bidirectional characters written as escapes. */
export function shownValue(value: string): string {
  const cut = value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value;
  return cut.replace(
    // deno-lint-ignore no-control-regex
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
