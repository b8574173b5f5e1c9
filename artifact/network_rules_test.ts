import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../base/errors.ts";
import {
  type HttpScheme,
  type NetworkRule,
  networkRuleCovers,
  networkRuleMatches,
  type NetworkTarget,
  parseNetworkRule,
  targetOf,
} from "./network_rules.ts";

function parts(entry: string): [HttpScheme | null, string, number | null] {
  const { scheme, host, port } = parseNetworkRule(entry);
  return [scheme, host, port];
}

Deno.test("an entry is a host, a host with a port, or an origin", () => {
  assert.deepEqual(parts("api.example.com"), [null, "api.example.com", null]);
  assert.deepEqual(parts("  api.example.com "), [null, "api.example.com", null]);
  assert.deepEqual(parts("localhost:11434"), [null, "localhost", 11434]);
  assert.deepEqual(parts("h:80"), [null, "h", 80]);
  assert.deepEqual(parts("h:0"), [null, "h", 0]);
  assert.deepEqual(parts("h:65535"), [null, "h", 65535]);
  assert.deepEqual(parts("https://api.example.com"), ["https", "api.example.com", 443]);
  assert.deepEqual(parts("https://api.example.com/"), ["https", "api.example.com", 443]);
  assert.deepEqual(parts("HTTP://h:8080"), ["http", "h", 8080]);
  assert.deepEqual(parts("http://h"), ["http", "h", 80]);
  assert.equal(parseNetworkRule("  h ").entry, "h");
});

Deno.test("hosts are normalised as WHATWG URL hosts", () => {
  assert.equal(parseNetworkRule("API.Example.COM").host, "api.example.com");
  assert.equal(parseNetworkRule("bücher.example").host, "xn--bcher-kva.example");
  assert.equal(parseNetworkRule("0x7f.1").host, "127.0.0.1");
  assert.equal(parseNetworkRule("2130706433").host, "127.0.0.1");
  assert.deepEqual(parts("[::1]:8080"), [null, "[::1]", 8080]);
  assert.deepEqual(parts("https://[2001:DB8::0:1]"), ["https", "[2001:db8::1]", 443]);
});

for (
  const entry of [
    "",
    "   ",
    "ftp://h",
    "file:///etc/passwd",
    "javascript://h",
    "://h",
    "http://",
    "https:///path",
    "h/",
    "h/path",
    "//h",
    "http://h/path",
    "http://h//",
    "http://h/.",
    "http://h?",
    "h?q=1",
    "h#f",
    "http://h/#",
    "user@h",
    "http://user:pass@h",
    "http://@h",
    "http://h:",
    "h:",
    "h:port",
    "h:65536",
    "h:-1",
    "h:1e3",
    "h:80:80",
    "h: 80",
    ":80",
    "*.example.com",
    "*",
    "a b",
    "a\tb",
    "a\nb",
    "http://a\\@b",
    "a\\b",
    "a\u0000b",
    "\u200ba",
    "::1",
    "[::1",
    "[::1]x",
    "[::1]]",
    "[]",
    "[::1%25eth0]",
    "256.1.1.1",
    "1.2.3.4.5.",
    "a%2fb",
    "a%00",
    "a<b",
    "a^b",
    "x".repeat(3000),
  ]
) {
  Deno.test(`refused as a network entry: ${JSON.stringify(entry.slice(0, 40))}`, () => {
    assert.throws(() => parseNetworkRule(entry), (error) => {
      assert.ok(error instanceof MurError);
      assert.equal(error.code, "E-CAP-001");
      assert.match(error.message, /^invalid network allow entry '[^]*': ./);
      // deno-lint-ignore no-control-regex
      assert.doesNotMatch(error.message, /[\u0000-\u001f]/);
      assert.doesNotMatch(error.message, /pass@/);
      return true;
    });
  });
}

Deno.test("a target is a URL's scheme, host and explicit or default port", () => {
  assert.deepEqual(targetOf(new URL("https://A.example/x?y")), { scheme: "https", host: "a.example", port: 443 });
  assert.deepEqual(targetOf(new URL("http://a.example")), { scheme: "http", host: "a.example", port: 80 });
  assert.deepEqual(targetOf(new URL("http://[::1]:9")), { scheme: "http", host: "[::1]", port: 9 });
  for (const url of ["ftp://h", "data:,x", "file:///x"]) {
    assert.throws(() => targetOf(new URL(url)), { code: "E-CAP-001" });
  }
});

Deno.test("a rule matches on host, and on scheme and port where it has them", () => {
  const matches = (entry: string, url: string) => networkRuleMatches(parseNetworkRule(entry), targetOf(new URL(url)));
  assert.ok(matches("h", "http://h") && matches("h", "https://h:444"));
  assert.ok(matches("h:80", "http://h") && matches("h:80", "https://h:80") && !matches("h:80", "https://h"));
  assert.ok(matches("https://h", "https://h:443") && !matches("https://h", "http://h:443"));
  assert.ok(!matches("https://h", "https://h:8443"));
  // Nothing but the very host.
  for (const other of ["https://h.example", "https://xh", "https://h.", "https://sub.h"]) {
    assert.ok(!matches("h", other));
  }
  assert.ok(!matches("127.0.0.1", "http://localhost") && !matches("localhost", "http://127.0.0.1"));
  assert.ok(matches("127.0.0.1", "http://0x7f000001"));
});

Deno.test("a ceiling covers what it leaves open and what is equal", () => {
  const covers = (a: string, b: string) => networkRuleCovers(parseNetworkRule(a), parseNetworkRule(b));
  assert.ok(covers("example.com", "https://example.com"));
  assert.ok(covers("example.com", "example.com:8080"));
  assert.ok(covers("example.com:443", "https://example.com"));
  assert.ok(!covers("https://example.com", "example.com"));
  assert.ok(!covers("example.com:443", "example.com"));
  assert.ok(!covers("https://example.com", "http://example.com"));
  assert.ok(!covers("https://example.com", "example.com:443"));
  assert.ok(!covers("example.com", "api.example.com"));
});

const rules: fc.Arbitrary<NetworkRule> = fc.record({
  entry: fc.constant(""),
  scheme: fc.constantFrom(null, "http" as const, "https" as const),
  host: fc.constantFrom("a", "b"),
  port: fc.constantFrom(null, 80, 443),
});
const targets: fc.Arbitrary<NetworkTarget> = fc.record({
  scheme: fc.constantFrom("http" as const, "https" as const),
  host: fc.constantFrom("a", "b"),
  port: fc.constantFrom(80, 443, 8080),
});

Deno.test("what is covered allows nothing its ceiling does not", () => {
  fc.assert(
    fc.property(rules, rules, targets, (ceiling, narrower, target) => {
      if (networkRuleCovers(ceiling, narrower) && networkRuleMatches(narrower, target)) {
        assert.ok(networkRuleMatches(ceiling, target));
      }
    }),
    { numRuns: 2000 },
  );
});

Deno.test("covering is reflexive and transitive", () => {
  fc.assert(fc.property(rules, rules, rules, (a, b, c) => {
    assert.ok(networkRuleCovers(a, a));
    if (networkRuleCovers(a, b) && networkRuleCovers(b, c)) assert.ok(networkRuleCovers(a, c));
  }));
});

Deno.test("any text is a rule or E-CAP-001, and a rule names the one host its URL has", () => {
  const alphabet = fc.string({
    unit: fc.constantFrom(..."abA0.:/@?#[]%\\-_ *\t\u200b", "http://", "https://", "[::1]"),
  });
  fc.assert(
    fc.property(fc.oneof(fc.string(), alphabet, fc.webUrl(), fc.domain(), fc.ipV4Extended(), fc.ipV6()), (text) => {
      let rule: NetworkRule;
      try {
        rule = parseNetworkRule(text);
      } catch (error) {
        assert.ok(error instanceof MurError && error.code === "E-CAP-001");
        return;
      }
      // Read back through the platform's own parser, the rule means the same request.
      const url = new URL(`${rule.scheme ?? "https"}://${rule.host}:${rule.port ?? 1234}/`);
      assert.equal(url.hostname, rule.host);
      assert.ok(networkRuleMatches(rule, targetOf(url)));
      assert.deepEqual(parts(rule.scheme === null ? rule.host : `${rule.scheme}://${rule.host}:${rule.port}`), [
        rule.scheme,
        rule.host,
        rule.scheme === null ? null : rule.port,
      ]);
    }),
    { numRuns: 2000 },
  );
});
