import assert from "node:assert/strict";
import { hostOfHeader, isAddressLiteral, isLoopbackHost } from "./host_header.ts";

Deno.test("a header's host is lower-cased and without its port", () => {
  for (
    const [header, host] of [
      ["localhost", "localhost"],
      ["LocalHost:7700", "localhost"],
      ["127.0.0.1:", "127.0.0.1"],
      ["[::1]:80", "[::1]"],
      ["agent.example:443", "agent.example"],
    ] as const
  ) assert.equal(hostOfHeader(header), host, header);
  for (
    const header of ["", " ", "a b", "a,b c", "a:80:90", "a/b", "a@b", "http://a", "a?b", "[::1", "::1", "a:123456"]
  ) {
    assert.equal(hostOfHeader(header), null, header);
  }
});

Deno.test("loopback is a name and literals, and nothing that only looks like one", () => {
  for (const host of ["localhost", "127.0.0.1", "127.255.255.255", "[::1]"]) assert.ok(isLoopbackHost(host), host);
  for (
    const host of ["127.0.0.256", "127.1", "127.0.0.1.evil.example", "128.0.0.1", "[::2]", "localhost.evil.example", ""]
  ) assert.ok(!isLoopbackHost(host), host);
});

Deno.test("an address literal is no name", () => {
  for (const host of ["10.0.0.1", "[2001:db8::1]", "127.0.0.1"]) assert.ok(isAddressLiteral(host), host);
  for (const host of ["localhost", "10.0.0", "10.0.0.999", "1.2.3.4.example"]) assert.ok(!isAddressLiteral(host), host);
});
