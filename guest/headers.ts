/**
 * `Headers` (WHATWG Fetch 2.2.2, 5.1): names in lower case, values trimmed, several values of one name joined by `, `
 * except `set-cookie`.
 *
 * @module
 */

/** What a `Headers` can be made from. */
export type HeadersInit = Headers | Iterable<readonly [string, string]> | Readonly<Record<string, string>>;

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;

function checkedName(name: string): string {
  const lower = String(name).toLowerCase();
  if (!TOKEN.test(lower)) throw new TypeError(`not a header name: ${JSON.stringify(String(name))}`);
  return lower;
}

function checkedValue(name: string, value: string): string {
  const trimmed = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, "");
  for (let i = 0; i < trimmed.length; i++) {
    const code = trimmed.charCodeAt(i);
    // The value is not quoted: it may be a secret.
    if (code === 0 || code === 10 || code === 13 || code > 255) {
      throw new TypeError(`the value of header ${name} has a character that no header can carry`);
    }
  }
  return trimmed;
}

/** The global `Headers`. */
export class Headers {
  #entries: [string, string][] = [];

  constructor(init?: HeadersInit) {
    if (init === undefined || init === null) return;
    const entries = init instanceof Headers
      ? init.rawEntries()
      : Symbol.iterator in init
      ? init as Iterable<readonly [string, string]>
      : Object.entries(init as Record<string, string>);
    for (const entry of entries) {
      if (entry.length !== 2) throw new TypeError("Headers: every entry must be a pair of name and value");
      this.append(entry[0], entry[1]);
    }
  }

  append(name: string, value: string): void {
    const key = checkedName(name);
    this.#entries.push([key, checkedValue(key, value)]);
  }

  set(name: string, value: string): void {
    const key = checkedName(name);
    const checked = checkedValue(key, value);
    this.#entries = this.#entries.filter(([other]) => other !== key);
    this.#entries.push([key, checked]);
  }

  delete(name: string): void {
    const key = checkedName(name);
    this.#entries = this.#entries.filter(([other]) => other !== key);
  }

  has(name: string): boolean {
    const key = checkedName(name);
    return this.#entries.some(([other]) => other === key);
  }

  get(name: string): string | null {
    const key = checkedName(name);
    const values = this.#entries.filter(([other]) => other === key).map(([, value]) => value);
    return values.length === 0 ? null : values.join(", ");
  }

  getSetCookie(): string[] {
    return this.#entries.filter(([name]) => name === "set-cookie").map(([, value]) => value);
  }

  forEach(callback: (value: string, name: string, headers: Headers) => void): void {
    for (const [name, value] of this) callback(value, name, this);
  }

  *entries(): IterableIterator<[string, string]> {
    const names = [...new Set(this.#entries.map(([name]) => name))].sort();
    for (const name of names) {
      if (name === "set-cookie") { for (const cookie of this.getSetCookie()) yield [name, cookie]; }
      else yield [name, this.get(name) ?? ""];
    }
  }

  *keys(): IterableIterator<string> {
    for (const [name] of this) yield name;
  }

  *values(): IterableIterator<string> {
    for (const [, value] of this) yield value;
  }

  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries();
  }

  /** @internal Every entry as it was appended. */
  rawEntries(): readonly [string, string][] {
    return this.#entries;
  }
}
