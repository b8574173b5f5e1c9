import assert from "node:assert/strict";
import fc from "fast-check";
import { formatIpAddress, type IpAddress, parseIpAddress } from "../base/ip_address.ts";
import { DNS_RCODE, dnsFormatError, dnsReply, MAX_DNS_MESSAGE, parseDnsQuery } from "./dns_message.ts";
import { dnsQuery, type DnsQuestion, readDnsReply } from "./testing/dns_client.ts";

const A = 1;
const AAAA = 28;
const question = (name: string, type = A, more: Partial<DnsQuestion> = {}) => dnsQuery({ name, type, ...more });
const ip = (text: string): IpAddress => parseIpAddress(text)!;

Deno.test("a question's name is lower case, without case or dot of its own", () => {
  const query = question("WwW.Example.COM");
  assert.deepEqual(parseDnsQuery(query), { kind: "question", name: "www.example.com", family: 4, end: query.length });
  assert.equal(parseDnsQuery(question("")).kind === "question", true);
  assert.deepEqual(parseDnsQuery(question("", A)), { kind: "question", name: "", family: 4, end: 17 });
});

Deno.test("only A and AAAA of the Internet ask for addresses", () => {
  const family = (type: number, dnsClass?: number) => {
    const parsed = parseDnsQuery(question("a.example", type, dnsClass === undefined ? {} : { dnsClass }));
    return parsed.kind === "question" ? parsed.family : parsed.kind;
  };
  assert.equal(family(A), 4);
  assert.equal(family(AAAA), 6);
  for (const type of [0, 2, 5, 6, 10, 12, 15, 16, 33, 64, 65, 252, 255, 65535]) assert.equal(family(type), null);
  for (const dnsClass of [0, 3, 4, 254, 255]) assert.equal(family(A, dnsClass), null);
});

Deno.test("what follows the question changes nothing", () => {
  const query = question("a.example");
  const edns = [0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0];
  const longer = new Uint8Array([...query, ...edns]);
  longer[11] = 1;
  assert.deepEqual(parseDnsQuery(longer), parseDnsQuery(query));
});

Deno.test("no query: a response, another operation, no or several questions, compression, a cut, a name too long", () => {
  const changed = (at: number, value: number) => {
    const query = question("a.example");
    query[at] = value;
    return parseDnsQuery(query).kind;
  };
  assert.equal(changed(2, 0x80), "malformed", "QR");
  for (const opcode of [1, 2, 4, 5, 15]) assert.equal(changed(2, opcode << 3), "malformed", `operation ${opcode}`);
  for (const count of [0, 2, 255]) assert.equal(changed(5, count), "malformed", `${count} questions`);
  assert.equal(changed(4, 1), "malformed", "257 questions");
  for (const length of [0x40, 0x80, 0xc0, 0xff]) assert.equal(changed(12, length), "malformed", `length ${length}`);
  const pointer = new Uint8Array([...question("").subarray(0, 12), 1, 0x61, 0xc0, 12, 0, 1, 0, 1]);
  assert.equal(parseDnsQuery(pointer).kind, "malformed", "a pointer after a label");
  const whole = question("a.example");
  for (let length = 0; length < whole.length; length++) {
    const { kind } = parseDnsQuery(whole.subarray(0, length));
    assert.equal(kind, length < 12 ? "fragment" : "malformed", `cut to ${length}`);
  }
  const label = "x".repeat(63);
  const longest = `${label}.${label}.${label}.${"x".repeat(61)}`;
  assert.equal(parseDnsQuery(question(longest)).kind, "question");
  assert.equal(parseDnsQuery(question(`${longest}x`)).kind, "malformed");
  const padded = new Uint8Array(MAX_DNS_MESSAGE + 1);
  padded.set(whole);
  assert.equal(parseDnsQuery(padded).kind, "malformed");
  assert.equal(parseDnsQuery(padded.subarray(1)).kind, "malformed");
  assert.equal(parseDnsQuery(padded.subarray(0, MAX_DNS_MESSAGE)).kind, "question");
});

Deno.test("a label with anything but letters, digits, '-' and '_' makes no host name", () => {
  for (const label of ["a.b", "a b", "a\0", "a/b", "*", "ü", "a@b", "[", "{"]) {
    const parsed = parseDnsQuery(dnsQuery({ labels: [label, "example"], type: A }));
    assert.equal(parsed.kind === "question" ? parsed.name : "", null, label);
  }
  const parsed = parseDnsQuery(question("_srv.a-b.Z9"));
  assert.equal(parsed.kind === "question" && parsed.name, "_srv.a-b.z9");
});

Deno.test("a reply echoes number, wish for recursion and question, and says that recursion is there", () => {
  for (const recursion of [true, false]) {
    const query = question("CaSe.example", A, { id: 0xbeef, recursion });
    const parsed = parseDnsQuery(query);
    assert.ok(parsed.kind === "question");
    const reply = dnsReply(query, parsed.end, DNS_RCODE.NXDOMAIN);
    assert.deepEqual([...reply.subarray(0, 4)], [0xbe, 0xef, recursion ? 0x81 : 0x80, 0x83]);
    assert.deepEqual(reply.subarray(12), query.subarray(12));
    const read = readDnsReply(reply);
    assert.deepEqual([read.code, read.question, read.addresses], [3, "CaSe.example", []]);
  }
});

Deno.test("records point to the question's name and live 60 seconds", () => {
  const query = question("a.example", AAAA);
  const reply = dnsReply(query, query.length, DNS_RCODE.NOERROR, [ip("2606:4700::1"), ip("2606:4700::2")]);
  assert.deepEqual([...reply.subarray(query.length, query.length + 12)], [0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16]);
  assert.deepEqual(readDnsReply(reply).addresses, ["2606:4700::1", "2606:4700::2"]);
});

Deno.test("what was appended to the query is not in the reply", () => {
  const query = question("a.example");
  const longer = new Uint8Array([...query, ...new TextEncoder().encode("hidden")]);
  longer.set([0, 1, 0, 2, 0, 3], 6);
  const reply = dnsReply(longer, query.length, DNS_RCODE.NOERROR, [ip("8.8.8.8")]);
  assert.equal(reply.length, query.length + 16);
  assert.deepEqual(readDnsReply(reply).addresses, ["8.8.8.8"]);
});

Deno.test("addresses that would make the reply longer than 4096 bytes are left out", () => {
  const query = question("a.example");
  const many = Array.from({ length: 1_000 }, (_, n) => ip(`8.8.${n >> 8}.${n & 255}`));
  const reply = dnsReply(query, query.length, DNS_RCODE.NOERROR, many);
  assert.ok(reply.length <= MAX_DNS_MESSAGE && reply.length > MAX_DNS_MESSAGE - 16);
  const read = readDnsReply(reply).addresses;
  assert.equal(read.length, Math.floor((MAX_DNS_MESSAGE - query.length) / 16));
  assert.deepEqual(read, many.slice(0, read.length).map(formatIpAddress));
});

Deno.test("what can't be read is told so, with no question", () => {
  const reply = dnsFormatError(new Uint8Array([1, 2, 0xff, 0xff, 9, 9, 9, 9, 9, 9, 9, 9, 1, 2, 3]));
  assert.deepEqual([...reply], [1, 2, 0xf9, 0x81, 0, 0, 0, 0, 0, 0, 0, 0]);
});

const hostLabel = fc.stringMatching(/^[a-zA-Z0-9_-]{1,63}$/);

Deno.test("property: every host name that fits comes back as it was asked, in lower case", () => {
  fc.assert(fc.property(fc.array(hostLabel, { maxLength: 6 }), fc.constantFrom(A, AAAA, 16), (labels, type) => {
    const query = dnsQuery({ labels, type });
    const parsed = parseDnsQuery(query);
    if (query.length - 12 - 4 > 255) return assert.equal(parsed.kind, "malformed");
    assert.deepEqual(parsed, {
      kind: "question",
      name: labels.join(".").toLowerCase(),
      family: type === A ? 4 : type === AAAA ? 6 : null,
      end: query.length,
    });
  }));
});

/** What holds for any bytes at all. */
function judge(bytes: Uint8Array): void {
  const parsed = parseDnsQuery(bytes);
  assert.equal(parsed.kind === "fragment", bytes.length < 12);
  if (parsed.kind !== "question") return;
  assert.ok(parsed.end <= bytes.length && parsed.end >= 17 && parsed.end <= 12 + 255 + 4);
  assert.ok(parsed.name === null || /^[a-z0-9_-]*(\.[a-z0-9_-]+)*$/.test(parsed.name));
  const reply = dnsReply(bytes, parsed.end, DNS_RCODE.NOERROR, [ip("8.8.8.8")]);
  assert.equal(readDnsReply(reply).addresses[0], "8.8.8.8");
}

Deno.test("fuzz: any bytes, and any change to a query, are read without a fault and end within the name", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 600 }), judge), { numRuns: 5_000 });
  const broken = fc.tuple(
    fc.array(hostLabel, { minLength: 1, maxLength: 5 }),
    fc.array(fc.tuple(fc.nat(300), fc.nat(255)), { maxLength: 6 }),
    fc.nat(320),
  );
  fc.assert(
    fc.property(broken, ([labels, changes, cut]) => {
      const query = dnsQuery({ labels, type: A });
      for (const [at, value] of changes) if (at < query.length) query[at] = value;
      judge(query.subarray(0, cut));
    }),
    { numRuns: 5_000 },
  );
});
