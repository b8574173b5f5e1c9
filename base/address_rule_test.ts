import assert from "node:assert/strict";
import { addressAdmitted, addressRuleFor } from "./address_rule.ts";
import { parseIpAddress } from "./ip_address.ts";

const admits = (host: string, address: string) => addressAdmitted(addressRuleFor(host), parseIpAddress(address)!);

Deno.test("a name opens public addresses and nothing else", () => {
  assert.ok(admits("api.example.com", "93.184.216.34"));
  assert.ok(admits("api.example.com", "2606:4700::1111"));
  for (
    const address of [
      "127.0.0.1",
      "10.1.2.3",
      "169.254.169.254",
      "168.63.129.16",
      "0.0.0.0",
      "224.0.0.1",
      "::1",
      "::ffff:127.0.0.1",
      "fd00::1",
      "fe80::1",
      "64:ff9b::a00:1",
      "2002:a00:1::",
      "2001:0:a00:1::",
    ]
  ) assert.ok(!admits("api.example.com", address), address);
});

Deno.test("localhost opens loopback and nothing else", () => {
  for (const address of ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]) assert.ok(admits("localhost", address));
  for (const address of ["10.0.0.1", "8.8.8.8", "0.0.0.0", "::"]) assert.ok(!admits("localhost", address), address);
  // Only the name itself: a name below it is a name like any other.
  assert.ok(!admits("a.localhost", "127.0.0.1"));
  assert.ok(!admits("localhost.", "127.0.0.1"));
});

Deno.test("a literal opens itself and nothing else", () => {
  assert.ok(admits("10.0.0.7", "10.0.0.7"));
  assert.ok(admits("[::1]", "::1"));
  assert.ok(admits("169.254.169.254", "169.254.169.254"));
  assert.ok(!admits("10.0.0.7", "10.0.0.8"));
  assert.ok(!admits("127.0.0.1", "::ffff:127.0.0.1"));
  assert.ok(!admits("[::1]", "127.0.0.1"));
});
