import assert from "node:assert/strict";
import fc from "fast-check";
import { type AddressKind, addressKind, formatIpAddress, parseIpAddress, sameIpAddress } from "./ip_address.ts";

const KINDS: readonly (readonly [string, AddressKind])[] = [
  ["8.8.8.8", "public"],
  ["1.1.1.1", "public"],
  ["9.255.255.255", "public"],
  ["11.0.0.0", "public"],
  ["100.63.255.255", "public"],
  ["100.128.0.0", "public"],
  ["126.255.255.255", "public"],
  ["128.0.0.0", "public"],
  ["172.15.255.255", "public"],
  ["172.32.0.0", "public"],
  ["192.0.1.0", "public"],
  ["192.167.255.255", "public"],
  ["192.169.0.0", "public"],
  ["198.17.255.255", "public"],
  ["198.20.0.0", "public"],
  ["223.255.255.255", "public"],
  ["0.0.0.0", "unspecified"],
  ["0.0.0.1", "reserved"],
  ["10.0.0.0", "private"],
  ["10.255.255.255", "private"],
  ["100.64.0.0", "private"],
  ["100.100.100.200", "private"],
  ["100.127.255.255", "private"],
  ["127.0.0.1", "loopback"],
  ["127.255.255.255", "loopback"],
  ["169.254.169.254", "link-local"],
  ["169.254.170.2", "link-local"],
  ["172.16.0.0", "private"],
  ["172.31.255.255", "private"],
  ["192.0.0.192", "reserved"],
  ["192.0.2.1", "reserved"],
  ["192.88.99.1", "transition"],
  ["192.168.0.0", "private"],
  ["192.168.255.255", "private"],
  ["198.18.0.0", "private"],
  ["198.19.255.255", "private"],
  ["198.51.100.7", "reserved"],
  ["203.0.113.7", "reserved"],
  ["168.63.129.16", "metadata"],
  ["168.63.129.17", "public"],
  ["224.0.0.1", "multicast"],
  ["239.255.255.255", "multicast"],
  ["240.0.0.0", "reserved"],
  ["255.255.255.255", "reserved"],
  ["::", "unspecified"],
  ["::1", "loopback"],
  ["::2", "reserved"],
  ["::7f00:1", "reserved"],
  ["::ffff:127.0.0.1", "loopback"],
  ["::ffff:10.0.0.1", "private"],
  ["::ffff:169.254.169.254", "link-local"],
  ["::ffff:0:0", "unspecified"],
  ["::ffff:8.8.8.8", "public"],
  ["::ffff:0:7f00:1", "reserved"],
  ["64:ff9b::7f00:1", "loopback"],
  ["64:ff9b::a9fe:a9fe", "link-local"],
  ["64:ff9b::808:808", "public"],
  ["64:ff9b:1::808:808", "transition"],
  ["64:ff9b:0:1::808:808", "reserved"],
  ["100::1", "reserved"],
  ["2001::1", "transition"],
  ["2001:0:7f00:1::", "transition"],
  ["2001:2::1", "reserved"],
  ["2001:20::1", "reserved"],
  ["2001:1ff::1", "reserved"],
  ["2001:200::1", "public"],
  ["2001:db8::1", "reserved"],
  ["2001:4860:4860::8888", "public"],
  ["2002:7f00:1::", "transition"],
  ["2002:808:808::1", "transition"],
  ["2606:4700::1111", "public"],
  ["3fff:fff::1", "reserved"],
  ["3ffe::1", "public"],
  ["4000::1", "reserved"],
  ["5f00::1", "reserved"],
  ["fc00::1", "private"],
  ["fd00:ec2::254", "private"],
  ["fd20:ce::254", "private"],
  ["fe80::1", "link-local"],
  ["febf::1", "link-local"],
  ["fec0::1", "private"],
  ["ff02::1", "multicast"],
];

Deno.test("every special block is told from public space at its edges", () => {
  for (const [text, kind] of KINDS) {
    const address = parseIpAddress(text);
    assert.ok(address, text);
    assert.equal(addressKind(address), kind, text);
  }
});

Deno.test("texts that other parsers read as addresses are no addresses", () => {
  const refused = [
    "",
    "127.1",
    "0177.0.0.1",
    "127.0.0.01",
    "0x7f.0.0.1",
    "2130706433",
    "127.0.0.1.",
    "127.0.0.256",
    " 127.0.0.1",
    "1.2.3",
    "1.2.3.4.5",
    "localhost",
    "[127.0.0.1]",
    ":::",
    "1::2::3",
    "fe80::1%eth0",
    "12345::",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "::1.2.3",
    "::1.2.3.4:5",
    "[::1",
    "::g",
  ];
  for (const text of refused) assert.equal(parseIpAddress(text), null, text);
});

Deno.test("IPv6 text: brackets, embedded IPv4 and case mean the same bytes", () => {
  const forms = ["::ffff:127.0.0.1", "[::ffff:7f00:1]", "0:0:0:0:0:FFFF:7F00:0001", "::FFFF:7f00:1"];
  const [first, ...others] = forms.map((text) => parseIpAddress(text)!);
  for (const other of others) assert.ok(sameIpAddress(first!, other));
});

Deno.test("canonical text follows RFC 5952", () => {
  const cases = [
    ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
    ["2001:0db8:0000:0001:0000:0001:0000:0001", "2001:db8:0:1:0:1:0:1"],
    ["0:0:0:0:0:0:0:0", "::"],
    ["1:0:0:0:0:0:0:0", "1::"],
    ["0:0:0:0:0:0:0:1", "::1"],
  ] as const;
  for (const [text, canonical] of cases) assert.equal(formatIpAddress(parseIpAddress(text)!), canonical);
});

Deno.test("text and bytes round-trip, and a URL host gives the same bytes", () => {
  const ipv4 = fc.uint8Array({ minLength: 4, maxLength: 4 });
  const ipv6 = fc.oneof(
    fc.uint8Array({ minLength: 16, maxLength: 16 }),
    fc.array(fc.constantFrom(0, 0, 0, 1, 255), { minLength: 16, maxLength: 16 }).map((bytes) => Uint8Array.from(bytes)),
  );
  fc.assert(fc.property(ipv4, (bytes) => {
    const address = { version: 4, bytes } as const;
    const text = formatIpAddress(address);
    assert.ok(sameIpAddress(parseIpAddress(text)!, address));
    assert.equal(new URL(`http://${text}/`).hostname, text);
  }));
  fc.assert(fc.property(ipv6, (bytes) => {
    const address = { version: 6, bytes } as const;
    const text = formatIpAddress(address);
    assert.ok(sameIpAddress(parseIpAddress(text)!, address));
    assert.equal(new URL(`http://[${text}]/`).hostname, `[${text}]`);
  }));
});

Deno.test("an IPv4 address keeps its kind in the mapped and in the NAT64 form", () => {
  fc.assert(fc.property(fc.uint8Array({ minLength: 4, maxLength: 4 }), (bytes) => {
    const kind = addressKind({ version: 4, bytes });
    const text = bytes.join(".");
    assert.equal(addressKind(parseIpAddress(`::ffff:${text}`)!), kind);
    assert.equal(addressKind(parseIpAddress(`64:ff9b::${text}`)!), kind);
    assert.notEqual(addressKind(parseIpAddress(`::${text}`)!), "public");
  }));
});
