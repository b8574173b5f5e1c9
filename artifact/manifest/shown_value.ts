/**
 * A value of a file as a message quotes it: bounded in length and without characters a terminal acts on, since the file
 * may come from somebody else.
 *
 * @module
 */

const MAX_SHOWN = 120;

/** The value, cut to `length` UTF-16 units, control and bidirectional characters written as escapes. */
export function shownValue(value: string, length = MAX_SHOWN): string {
  const cut = value.length > length ? `${value.slice(0, length)}…` : value;
  return cut.replace(
    // deno-lint-ignore no-control-regex
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
