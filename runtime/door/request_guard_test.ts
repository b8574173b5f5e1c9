import assert from "node:assert/strict";
import fc from "fast-check";
import { hostOfHeader } from "../../base/host_header.ts";
import { guardRequest, ownHost } from "./request_guard.ts";

const LOOPBACK = { boundAddress: "127.0.0.1", hosts: ["agent.example"], origins: ["https://ui.example"] };

function guard(host: string | null, origin?: string, rules = LOOPBACK, authority = host ?? "localhost") {
  const headers = new Headers();
  if (host !== null) headers.set("host", host);
  if (origin !== undefined) headers.set("origin", origin);
  return guardRequest(headers, authority, ownHost(rules), rules.origins).refusal?.error ?? null;
}

Deno.test("loopback names and literals, the bound address and listed hosts are answered", () => {
  for (
    const host of ["localhost", "LOCALHOST:41873", "127.0.0.1:80", "127.9.8.7", "[::1]:5", "agent.example:443"]
  ) assert.equal(guard(host), null, host);
});

Deno.test("any other host is refused", () => {
  for (
    const host of [
      null,
      "",
      "evil.example",
      "127.0.0.1.evil.example",
      "localhost.evil.example",
      "localhost@evil.example",
      "localhost,evil.example",
      "localhost evil",
      "128.0.0.1",
      "127.0.0.256",
      "10.0.0.1",
      "[::2]",
      "localhost:80:90",
      "http://localhost",
    ]
  ) assert.equal(guard(host), "host_not_allowed", String(host));
});

Deno.test("a wildcard bind answers to address literals and to no further name", () => {
  const rules = { ...LOOPBACK, boundAddress: "0.0.0.0" };
  assert.equal(guard("10.1.2.3:80", undefined, rules), null);
  assert.equal(guard("[2001:db8::1]", undefined, rules), null);
  assert.equal(guard("rebound.example", undefined, rules), "host_not_allowed");
});

Deno.test("an origin is refused unless it is listed, null too", () => {
  assert.equal(guard("localhost", "https://ui.example"), null);
  for (const origin of ["null", "https://evil.example", "http://ui.example", "https://ui.example.evil", ""]) {
    assert.equal(guard("localhost", origin), "origin_not_allowed", origin);
  }
});

Deno.test("a target that names its host itself is refused when either is foreign", () => {
  assert.equal(guard("localhost:1", undefined, LOOPBACK, "agent.example:443"), null);
  for (const authority of ["evil.example", "evil.example:80", "user@localhost", "localhost:80@evil.example", ""]) {
    assert.equal(guard("localhost", undefined, LOOPBACK, authority), "host_not_allowed", authority);
  }
  assert.equal(guard("evil.example", undefined, LOOPBACK, "localhost"), "host_not_allowed");
});

Deno.test("a host that was answered before makes way for no other", () => {
  const isOwn = ownHost(LOOPBACK);
  for (
    const [host, own] of [
      ["localhost:1", true],
      ["evil.example:1", false],
      ["localhost:1", true],
      ["localhost:1.evil.example", false],
      ["localhost:10", true],
      ["evil.example:1", false],
      ["", false],
      ["agent.example", true],
      ["agent.example.", false],
    ] as const
  ) assert.equal(isOwn(host), own, host);
});

Deno.test("two Host headers are refused", () => {
  const headers = new Headers();
  headers.append("host", "localhost");
  headers.append("host", "evil.example");
  assert.equal(guardRequest(headers, "localhost", ownHost(LOOPBACK), []).refusal?.error, "host_not_allowed");
});

Deno.test("a host header is either a host with an optional port or nothing", () => {
  fc.assert(fc.property(fc.string(), (header) => {
    const host = hostOfHeader(header);
    if (host !== null) assert.ok(header.toLowerCase().startsWith(host));
  }));
});
