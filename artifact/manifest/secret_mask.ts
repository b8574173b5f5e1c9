/**
 * Masks secrets in a line of YAML before it is shown: an error names the place of a value and shows its line, and that
 * line may hold a literal key or the user information of a URL (spec diagnostics 1.1, rule 7).
 *
 * @module
 */

/** Keys whose scalar value is taken for a secret. `max_tokens` and `secrets:` (a list of names) are none. */
const SECRET_KEY = /(?:api[_-]?key|token(?!s)|secret(?!s)|passw(?:or)?d|credential(?!s))/i;

/**
 * A pair on one line: key, separator, then a quoted value, finished or not, or whatever else is left of the line: where
 * a plain value ends depends on what stands around it. `*` starts an alias, or a value that is masked already.
 */
const PAIR = /((?:"[^"]*"|'[^']*'|[\w.$-]+)[ \t]*:[ \t]+)("(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?|[^\s"'*].*)/;

/** A reference as the whole plain value at the start of a text. */
const PLAIN_REFERENCE = /^\$\{[A-Z_][A-Z0-9_]*\}(?=[ \t]*(?:[,}\]#]|$))/;

const USER_INFO = /(\/\/)([^\s"']*)(@)/g;

/** What terminals act on or reorder text by; shown as U+FFFD, one for one, so that columns hold. */
// deno-lint-ignore no-control-regex
const UNSHOWABLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** Whether a scalar under this key is a secret unless it is a `${NAME}` reference. */
export function isSecretKey(key: string): boolean {
  return SECRET_KEY.test(key);
}

/** Whether a value is exactly `${NAME}`: no secret but the name of one (spec manifest 3.5). */
export function isReferenceText(value: string): boolean {
  return /^\$\{[A-Z_][A-Z0-9_]*\}$/.test(value.trim());
}

function stars(text: string): string {
  return "*".repeat(text.length);
}

/**
 * The line with every secret replaced by as many asterisks, so that a column still points at what it did.
 *
 * @param line Without its line ending.
 */
export function maskLine(line: string): string {
  let masked = "";
  let rest = line;
  for (let pair = PAIR.exec(rest); pair !== null; pair = PAIR.exec(rest)) {
    const [, key = "", value = ""] = pair;
    const quoted = /^["']/.test(value);
    const secret = isSecretKey(key) && !PLAIN_REFERENCE.test(value) &&
      !(quoted && isReferenceText(value.replace(/^["']|["']$/g, "")));
    const end = pair.index + key.length;
    // A plain value is gone over again: further pairs may follow it.
    const taken = secret || quoted ? value.length : 0;
    masked += rest.slice(0, end) + (secret ? stars(value) : value.slice(0, taken));
    rest = rest.slice(end + taken);
  }
  return (masked + rest)
    .replace(USER_INFO, (_, start: string, info: string, end: string) => start + stars(info) + end)
    .replace(UNSHOWABLE, "\ufffd");
}
