import assert from "node:assert/strict";
import fc from "fast-check";
import { URL as GuestURL, URLSearchParams as GuestURLSearchParams } from "whatwg-url-minimum";

/** The parser components carry, against the one of this program, on inputs in the manner of the web platform tests. */
const INPUTS: [string, string?][] = [
  ["http://example.com"],
  ["HTTP://EXAMPLE.com:80/../a/./b/../c?q#f"],
  ["https://user:pa%20ss@host:8443/a b?c d#e f"],
  ["//other/x", "https://h/p"],
  ["/x", "https://h/p/q"],
  ["x?y", "https://h/p/q?z#w"],
  ["?y", "https://h/p/q?z#w"],
  ["#y", "https://h/p/q?z#w"],
  ["", "https://h/p/q?z#w"],
  ["..", "https://h/a/b/c"],
  ["\\\\h\\a\\b", "http://x/"],
  [" \t\nhttps://h/\n "],
  ["ht\ntp://h/a\tb"],
  ["http://1.2.3"],
  ["http://0x7f.1/"],
  ["http://256.256.256.256/"],
  ["http://2130706433/"],
  ["http://[::1]:80/"],
  ["http://[::ffff:1.2.3.4]/"],
  ["http://[1:2:3]/"],
  ["http://h:65535/"],
  ["http://h:65536/"],
  ["http://h:/"],
  ["http://h:8x/"],
  ["http:///x"],
  ["http://"],
  ["http://a b/"],
  ["http://a%00b/"],
  ["http://a%41b/"],
  ["http://exa<mple.com"],
  ["http://user@/x"],
  ["http://@h/"],
  ["http://:@h/"],
  ["https://Bücher.example/ß?ß#ß"],
  ["https://xn--bcher-kva.example/"],
  ["https://faß.example/"],
  ["https://日本語。jp/"],
  ["https://\u00adexample.com/"],
  ["file:c:\\x", "file:///d:/y"],
  ["file://host/x"],
  ["mailto:a@b"],
  ["data:text/plain,a b#c"],
  ["javascript:alert(1)"],
  ["non-special://h:80/a b?c"],
  ["blob:https://h/x"],
  ["wss://h:443/"],
  ["https://h/%zz%41?%zz'\""],
  ["https://h/\ud800x"],
  ["not a url"],
  ["1http://x"],
  ["a:b", "mailto:x"],
  ["x", "mailto:x"],
];

const PARTS = [
  "href",
  "origin",
  "protocol",
  "username",
  "password",
  "host",
  "port",
  "pathname",
  "search",
  "hash",
] as const;

function partsOf(kind: typeof URL, input: string, base: string | undefined): Record<string, string> | "invalid" {
  let url: URL;
  try {
    url = new kind(input, base);
  } catch (error) {
    assert.ok(error instanceof TypeError);
    return "invalid";
  }
  return Object.fromEntries(PARTS.map((part) => [part, url[part]]));
}

Deno.test("URLs are parsed as the standard says", () => {
  for (const [input, base] of INPUTS) {
    const label = `${JSON.stringify(input)} ${base ?? ""}`;
    assert.deepEqual(partsOf(GuestURL as unknown as typeof URL, input, base), partsOf(URL, input, base), label);
  }
});

Deno.test("where this program departs from the standard, components do not", () => {
  assert.equal(new GuestURL("file:///C|/x").href, "file:///C:/x");
  assert.equal(new GuestURL("non-special:/..//p").host, "");
  assert.equal(new GuestURL("a: ?").href, "a:%20?");
});

Deno.test("any text is parsed as this program parses it, as far as both go", () => {
  const text = fc.stringMatching(/^[a-z:/?#@.0-9 &=+]{0,40}$/);
  fc.assert(
    fc.property(text, text, (input, rest) => {
      for (const candidate of [`./${input}`, `http://${input}`, `https://h/${input}?${rest}#${rest}`]) {
        const base = "https://base.example/a/b?c";
        assert.deepEqual(
          partsOf(GuestURL as unknown as typeof URL, candidate, base),
          partsOf(URL, candidate, base),
          JSON.stringify(candidate),
        );
      }
    }),
    { numRuns: 2_000 },
  );
});

Deno.test("setters and search parameters", () => {
  const ours = new GuestURL("https://h/p?a=1&a=2&b=%20+x");
  const theirs = new URL(ours.href);
  for (const url of [ours, theirs] as URL[]) {
    url.searchParams.append("ä", "1&2=3");
    url.searchParams.delete("a", "1");
    url.searchParams.sort();
    url.port = "8080";
    url.pathname = "/a b/../c";
    url.hash = "";
    url.protocol = "http";
  }
  assert.equal(ours.href, theirs.href);
  fc.assert(fc.property(fc.array(fc.tuple(fc.string(), fc.string())), (pairs) => {
    const well = pairs.map(([key, value]): [string, string] => [key.toWellFormed(), value.toWellFormed()]);
    const mine = new GuestURLSearchParams(well);
    assert.equal(mine.toString(), new URLSearchParams(well).toString());
    assert.deepEqual([...new GuestURLSearchParams(mine.toString())], well);
  }));
});
