import assert from "node:assert/strict";
import fc from "fast-check";
import { parseNetworkRule } from "../artifact/network_rules.ts";
import { addressKind, formatIpAddress, type IpAddress, parseIpAddress } from "../base/ip_address.ts";
import { EgressPolicy, egressPorts, MAX_NAME_BINDINGS, NAME_BINDING_MS, unservedPorts } from "./egress_policy.ts";

const rules = (...entries: string[]) => entries.map(parseNetworkRule);
const ip = (text: string) => parseIpAddress(text)!;
const launched = (hosts: Record<string, string[]>) =>
  new Map(Object.entries(hosts).map(([host, addresses]) => [host, addresses.map(ip)]));

function policy(entries: string[], launch: Record<string, string[]> = {}): EgressPolicy {
  return new EgressPolicy(rules(...entries), launched(launch));
}

/** What a name may never open, in every form an address has. */
const NOT_PUBLIC = [
  "0.0.0.0",
  "0.1.2.3",
  "10.0.0.1",
  "10.255.255.255",
  "100.64.0.1",
  "127.0.0.1",
  "127.255.255.254",
  "168.63.129.16",
  "169.254.169.254",
  "169.254.0.1",
  "172.16.0.1",
  "172.31.255.255",
  "192.0.0.1",
  "192.168.0.1",
  "198.18.0.1",
  "203.0.113.5",
  "224.0.0.1",
  "240.0.0.1",
  "255.255.255.255",
];

Deno.test("ports: the rules' own, 80 and 443 for a rule without one, ascending, once, the first 16, never 0", () => {
  assert.deepEqual(egressPorts([]), []);
  assert.deepEqual(egressPorts(rules("a.example")), [80, 443]);
  assert.deepEqual(egressPorts(rules("https://a.example", "http://a.example", "b.example:22", "c.example:22")), [
    22,
    80,
    443,
  ]);
  assert.deepEqual(egressPorts(rules("a.example:0")), []);
  const many = rules(...Array.from({ length: 40 }, (_, i) => `h${i}.example:${9_000 - i}`));
  assert.deepEqual(egressPorts(many), Array.from({ length: 16 }, (_, i) => 8_961 + i));
  assert.deepEqual([...egressPorts(many), ...unservedPorts(many)].length, new Set(many.map(({ port }) => port)).size);
  assert.deepEqual(unservedPorts(rules("a.example", "b.example:22")), []);
});

Deno.test("a name leads to its address for 300 seconds and no longer", () => {
  const it = policy(["api.example:443"]);
  assert.equal(it.admits(ip("8.8.8.8"), 443, 0), false, "before anything resolved");
  assert.deepEqual(it.bind("API.example.", [ip("8.8.8.8"), ip("2606:4700::1")], 1_000).map(formatIpAddress), [
    "8.8.8.8",
    "2606:4700::1",
  ]);
  assert.equal(it.admits(ip("8.8.8.8"), 443, 1_000), true);
  assert.equal(it.admits(ip("8.8.8.8"), 443, 1_000 + NAME_BINDING_MS - 1), true);
  assert.equal(it.admits(ip("8.8.8.8"), 443, 1_000 + NAME_BINDING_MS), false);
  it.bind("api.example", [ip("8.8.8.8")], 2_000);
  assert.equal(it.admits(ip("8.8.8.8"), 443, 1_000 + NAME_BINDING_MS), true, "asked again, bound anew");
});

Deno.test("a port without a rule, an address without a name, IPv6: refused", () => {
  const it = policy(["api.example:443"]);
  it.bind("api.example", [ip("8.8.8.8"), ip("2606:4700::1"), ip("::ffff:8.8.4.4")], 0);
  for (const port of [0, 22, 80, 442, 444, 8443, 65535]) assert.equal(it.admits(ip("8.8.8.8"), port, 0), false);
  for (const other of ["8.8.8.9", "1.1.1.1", "8.8.4.4"]) assert.equal(it.admits(ip(other), 443, 0), false);
  for (const six of ["2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]) {
    assert.equal(it.admits(ip(six), 443, 0), false);
  }
});

Deno.test("several names lead to one address; any that a rule names for the port is enough", () => {
  const it = policy(["https://a.example", "b.example:22", "c.example"]);
  it.bind("a.example", [ip("8.8.8.8")], 0);
  it.bind("b.example", [ip("8.8.8.8")], 100);
  assert.equal(it.admits(ip("8.8.8.8"), 443, 200), true);
  assert.equal(it.admits(ip("8.8.8.8"), 22, 200), true);
  assert.equal(it.admits(ip("8.8.8.8"), 80, 200), false);
  assert.equal(it.admits(ip("8.8.8.8"), 443, NAME_BINDING_MS), false, "a's time is over");
  assert.equal(it.admits(ip("8.8.8.8"), 22, NAME_BINDING_MS), true, "b's is not");
  it.bind("c.example", [ip("8.8.8.8")], 0);
  for (const port of [22, 80, 443, 5_000]) assert.equal(it.admits(ip("8.8.8.8"), port, 1), true, `any port: ${port}`);
});

Deno.test("one host in several rules has all their ports", () => {
  const it = policy(["https://a.example", "a.example:22"], { "a.example": ["8.8.8.8"] });
  assert.deepEqual([22, 80, 443].map((port) => it.admits(ip("8.8.8.8"), port, 0)), [true, false, true]);
});

Deno.test("addresses of launch need no query and never expire, and open only the ports of their own host", () => {
  const it = policy(["https://a.example", "b.example:22"], { "a.example": ["8.8.8.8"], "b.example": ["9.9.9.9"] });
  assert.equal(it.admits(ip("8.8.8.8"), 443, 1e12), true);
  assert.equal(it.admits(ip("8.8.8.8"), 22, 0), false, "22 is another host's");
  assert.equal(it.admits(ip("9.9.9.9"), 22, 0), true);
  assert.equal(it.admits(ip("9.9.9.9"), 443, 0), false);
});

Deno.test("addresses of launch count only for hosts of the rules", () => {
  assert.equal(policy(["a.example"], { "evil.example": ["8.8.8.8"] }).admits(ip("8.8.8.8"), 443, 0), false);
});

Deno.test("rebinding: a name that resolves to an address that is not public opens nothing", () => {
  for (const address of NOT_PUBLIC) {
    const it = policy(["api.example"], { "api.example": [address] });
    assert.deepEqual(it.bind("api.example", [ip(address), ip(`::ffff:${address}`)], 0), [], address);
    assert.equal(it.admits(ip(address), 443, 0), false, address);
    assert.equal(it.bindings, 0);
  }
  const it = policy(["api.example"]);
  for (const six of ["::1", "::", "fe80::1", "fd00::1", "fec0::1", "ff02::1", "2002:7f00:1::", "64:ff9b::10.0.0.1"]) {
    assert.deepEqual(it.bind("api.example", [ip(six)], 0), [], six);
  }
  const mixed = it.bind("api.example", [ip("169.254.169.254"), ip("8.8.8.8")], 0);
  assert.deepEqual(mixed.map(formatIpAddress), ["8.8.8.8"], "a public one among them is bound, the other is not told");
});

Deno.test("an address that is not public is opened by the rule that names it, itself alone", () => {
  const it = policy(["10.1.2.3:8080", "169.254.169.254", "http://127.0.0.1"]);
  assert.equal(it.admits(ip("10.1.2.3"), 8080, 0), true);
  assert.equal(it.admits(ip("10.1.2.3"), 80, 0), false);
  assert.equal(it.admits(ip("10.1.2.4"), 8080, 0), false);
  assert.equal(it.admits(ip("169.254.169.254"), 80, 0), true);
  assert.equal(it.admits(ip("127.0.0.1"), 80, 0), true);
  assert.equal(it.admits(ip("127.0.0.1"), 8080, 0), false, "another rule's port");
  assert.equal(it.admits(ip("127.0.0.2"), 80, 0), false);
  assert.equal(it.resolvable("127.0.0.1"), false, "an address is no name");
  assert.deepEqual(it.bind("127.0.0.1", [ip("8.8.8.8")], 0), []);
});

Deno.test("a rule's IPv6 address opens no IPv4 one, not by mapping either", () => {
  const it = policy(["[::ffff:10.0.0.1]:80", "[::1]:80"], { "[::1]": ["127.0.0.1"] });
  assert.equal(it.admits(ip("10.0.0.1"), 80, 0), false);
  assert.equal(it.admits(ip("127.0.0.1"), 80, 0), false);
});

Deno.test("'localhost' opens loopback addresses and nothing else, and no other name opens those", () => {
  for (const entry of ["localhost:8080", "localhost.:8080"]) {
    const it = policy([entry], { localhost: ["127.0.0.1", "::1"] });
    assert.equal(it.admits(ip("127.0.0.1"), 8080, 0), true);
    assert.equal(it.admits(ip("127.0.0.1"), 80, 0), false);
    assert.equal(it.admits(ip("127.0.0.9"), 8080, 0), false, "nothing led there");
    const bound = it.bind("localhost", [ip("127.0.0.9"), ip("10.0.0.1"), ip("8.8.8.8"), ip("::1")], 0);
    assert.deepEqual(bound.map(formatIpAddress), ["127.0.0.9", "::1"]);
    assert.equal(it.admits(ip("127.0.0.9"), 8080, 0), true);
    for (const other of ["10.0.0.1", "8.8.8.8"]) assert.equal(it.admits(ip(other), 8080, 0), false);
  }
  const below = policy(["a.localhost", "localhost.example"], { "a.localhost": ["127.0.0.1"] });
  assert.deepEqual(below.bind("a.localhost", [ip("127.0.0.1")], 0), []);
  assert.equal(below.admits(ip("127.0.0.1"), 80, 0), false);
});

Deno.test("resolvable names are the hosts of the rules and no others", () => {
  const it = policy(["https://Api.Example", "b.example.:22", "192.0.2.1"]);
  for (const name of ["api.example", "API.EXAMPLE", "api.example.", "b.example"]) assert.ok(it.resolvable(name), name);
  for (
    const name of ["", ".", "example", "x.api.example", "api.example.evil.test", "api.example..", "192.0.2.1", "api"]
  ) assert.equal(it.resolvable(name), false, name);
});

Deno.test("bindings are bounded: a name with ever new addresses drops its oldest, and time sweeps the rest", () => {
  const it = policy(["a.example", "b.example"]);
  const address = (n: number): IpAddress => ({ version: 4, bytes: new Uint8Array([8, n >> 16, n >> 8, n]) });
  const count = MAX_NAME_BINDINGS + 500;
  for (let n = 0; n < count; n++) {
    it.bind("a.example", [address(n)], n);
    if (n % 2 === 0) it.bind("b.example", [address(n)], n);
    assert.ok(it.bindings <= MAX_NAME_BINDINGS);
  }
  assert.equal(it.admits(address(0), 443, count), false);
  assert.equal(it.admits(address(count - 1), 443, count), true);
  it.bind("a.example", [address(count)], count + NAME_BINDING_MS);
  assert.equal(it.bindings, 1);
});

const HOSTS = ["a.example", "b.example", "localhost", "10.0.0.1", "8.8.8.8"];
const ADDRESSES = ["8.8.8.8", "9.9.9.9", "10.0.0.1", "10.0.0.2", "127.0.0.1", "127.0.0.2", "169.254.169.254", "::1"];
const anyHost = fc.constantFrom(...HOSTS);
const anyAddress = fc.constantFrom(...ADDRESSES).map(ip);
const anyRule = fc.record({ host: anyHost, port: fc.constantFrom("", ":22", ":80") }).map((r) => `${r.host}${r.port}`);
const anyEvent = fc.record({
  host: anyHost,
  addresses: fc.array(anyAddress, { maxLength: 3 }),
  wait: fc.constantFrom(0, 1, NAME_BINDING_MS / 2, NAME_BINDING_MS),
});

Deno.test("property: whatever happened before, what is admitted has a rule, a reason to lead there, and a fit address", () => {
  fc.assert(fc.property(
    fc.array(anyRule, { maxLength: 4 }),
    fc.array(anyEvent, { maxLength: 12 }),
    fc.array(fc.tuple(anyHost, fc.array(anyAddress, { maxLength: 2 })), { maxLength: 3 }),
    (entries, events, launch) => {
      const parsed = entries.map(parseNetworkRule);
      const it = new EgressPolicy(parsed, new Map(launch));
      const history: { host: string; address: string; at: number }[] = [];
      let now = 0;
      for (const { host, addresses, wait } of events) {
        now += wait;
        it.bind(host, addresses, now);
        for (const address of addresses) history.push({ host, address: formatIpAddress(address), at: now });
      }
      for (const text of ADDRESSES) {
        for (const port of [22, 80, 443]) {
          const address = ip(text);
          const kind = addressKind(address);
          const expected = address.version === 4 && parsed.some((rule) => {
            if (rule.port !== null && rule.port !== port) return false;
            if (parseIpAddress(rule.host) !== null) return rule.host === text;
            if (kind !== (rule.host === "localhost" ? "loopback" : "public")) return false;
            // The map keeps the last of equal hosts.
            const atLaunch = new Map(launch).get(rule.host) ?? [];
            if (atLaunch.some((other) => formatIpAddress(other) === text)) return true;
            return history.some(({ host, address, at }) =>
              host === rule.host && address === text && now - at < NAME_BINDING_MS
            );
          });
          assert.equal(it.admits(address, port, now), expected, `${text}:${port}`);
        }
      }
    },
  ));
});
