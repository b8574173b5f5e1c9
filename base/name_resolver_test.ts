import assert from "node:assert/strict";
import { nameServer } from "../tests/support/name_server.ts";
import { formatIpAddress } from "./ip_address.ts";
import { createNameResolver, parseHosts, parseResolvConf, type Resolution, searchedNames } from "./name_resolver.ts";

const SERVFAIL = 2;

const texts = (resolution: Resolution) => {
  assert.equal(resolution.kind, "found");
  return resolution.kind === "found" ? resolution.addresses.map(formatIpAddress) : [];
};

Deno.test("the hosts file comes before the name servers, names in any case and with a trailing dot", async () => {
  const resolver = createNameResolver({
    hosts: "# comment\n10.0.0.5\tDb.Example db # the database\nfd00::5 db\nnot-an-address x\n10.0.0.5 db\n",
    resolvConf: "nameserver 127.0.0.1\n",
    port: 1,
  });
  assert.deepEqual(texts(await resolver.resolve("DB")), ["10.0.0.5", "fd00::5"]);
  assert.deepEqual(texts(await resolver.resolve("db.example.")), ["10.0.0.5"]);
});

Deno.test("localhost and names below it are loopback and are asked of nobody", async () => {
  const resolver = createNameResolver({ hosts: "", resolvConf: "nameserver 127.0.0.1\n", port: 1 });
  for (const name of ["localhost", "LOCALHOST.", "a.localhost"]) {
    assert.deepEqual(texts(await resolver.resolve(name)), ["127.0.0.1", "::1"]);
  }
});

Deno.test("a literal resolves to itself", async () => {
  const resolver = createNameResolver({ hosts: "", resolvConf: "" });
  assert.deepEqual(texts(await resolver.resolve("[2001:DB8::1]")), ["2001:db8::1"]);
});

Deno.test("both families are asked and IPv4 comes first", async () => {
  await using server = await nameServer("127.0.0.1", {
    "both.test": { a: "192.0.2.1", aaaa: [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1] },
    "six.test": { aaaa: [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2] },
  });
  const resolver = createNameResolver({ hosts: "", resolvConf: "nameserver 127.0.0.1", port: server.port });
  assert.deepEqual(texts(await resolver.resolve("both.test")), ["192.0.2.1", "2001:db8::1"]);
  assert.deepEqual(texts(await resolver.resolve("six.test")), ["2001:db8::2"]);
  assert.deepEqual(await resolver.resolve("none.test"), { kind: "no-such-name" });
});

Deno.test("the search list is walked as ndots says", async () => {
  await using server = await nameServer("127.0.0.1", {
    "db.corp.test": { a: "192.0.2.7" },
    "a.b": { a: "192.0.2.8" },
  });
  const resolver = createNameResolver({
    hosts: "",
    resolvConf: "search corp.test other.test\nnameserver 127.0.0.1\noptions ndots:1",
    port: server.port,
  });
  assert.deepEqual(texts(await resolver.resolve("db")), ["192.0.2.7"]);
  assert.ok(!server.asked.includes("db A"));
  assert.deepEqual(texts(await resolver.resolve("a.b")), ["192.0.2.8"]);
  assert.ok(!server.asked.includes("a.b.corp.test A"));
  assert.deepEqual(await resolver.resolve("db."), { kind: "no-such-name" });
});

Deno.test("a server that fails or is silent leaves the answer to the next", async () => {
  await using first = await nameServer("127.0.0.1", { "x.test": { rcode: SERVFAIL }, "y.test": "silent" });
  await using second = await nameServer("127.0.0.2", {
    "x.test": { a: "192.0.2.1" },
    "y.test": { a: "192.0.2.2" },
  }, first.port);
  const resolver = createNameResolver({
    hosts: "",
    resolvConf: "nameserver 127.0.0.1\nnameserver 127.0.0.2",
    port: second.port,
    bounds: { resolveName: 5_000, nameserverReply: 150 },
  });
  assert.deepEqual(texts(await resolver.resolve("x.test")), ["192.0.2.1"]);
  assert.deepEqual(texts(await resolver.resolve("y.test")), ["192.0.2.2"]);
});

Deno.test("silence of all servers ends with the budget, and an abort ends it at once", async () => {
  await using server = await nameServer("127.0.0.1", { "mute.test": "silent" });
  const resolver = createNameResolver({
    hosts: "",
    resolvConf: "nameserver 127.0.0.1",
    port: server.port,
    bounds: { resolveName: 300, nameserverReply: 120 },
  });
  const started = performance.now();
  assert.equal((await resolver.resolve("mute.test")).kind, "no-answer");
  assert.ok(performance.now() - started < 1_500);
  await assert.rejects(resolver.resolve("mute.test", AbortSignal.abort(new Error("gone"))), /gone/);
  const controller = new AbortController();
  setTimeout(() => controller.abort(new Error("gone later")), 30);
  await assert.rejects(resolver.resolve("mute.test", controller.signal), /gone later/);
});

Deno.test("resolv.conf: comments, bounds and the last search line", () => {
  const config = parseResolvConf(
    "; c\n# c\nnameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver ::1\nnameserver 192.0.2.4\n" +
      "domain one.test\nsearch Two.Test. three.test\noptions rotate ndots:99 timeout:1\n",
  );
  assert.deepEqual(config, {
    nameservers: ["192.0.2.1", "192.0.2.2", "::1"],
    search: ["two.test", "three.test"],
    ndots: 15,
  });
  assert.deepEqual(searchedNames("a.b", { ...config, ndots: 1 }), ["a.b", "a.b.two.test", "a.b.three.test"]);
  assert.deepEqual(searchedNames("a.b", config), ["a.b.two.test", "a.b.three.test", "a.b"]);
  assert.deepEqual(searchedNames("a.b.", config), ["a.b"]);
  assert.equal(parseHosts("1.2.3.4").size, 0);
});
