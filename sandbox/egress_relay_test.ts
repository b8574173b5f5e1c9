import assert from "node:assert/strict";
import { parseNetworkRule } from "../artifact/network_rules.ts";
import { parseIpAddress } from "../base/ip_address.ts";
import { createNameResolver, type NameResolver } from "../base/name_resolver.ts";
import { DEFAULT_TIME_BOUNDS } from "../base/time_bounds.ts";
import { type NameAnswer, nameServer } from "../tests/support/name_server.ts";
import { EgressRelay, type EgressRelayOptions, MAX_RELAYED_CONNECTIONS } from "./egress_relay.ts";
import { NAME_BINDING_MS } from "./egress_policy.ts";
import { resolveLaunchAddresses } from "./launch_addresses.ts";
import { dnsQuery, readDnsReply } from "./testing/dns_client.ts";

const A = 1;
const AAAA = 28;

/** A resolver that knows these hosts and asks nobody. */
function hostsResolver(hosts: Record<string, string[]>): NameResolver {
  const lines = Object.entries(hosts).flatMap(([name, addresses]) => addresses.map((address) => `${address} ${name}`));
  return createNameResolver({ hosts: lines.join("\n"), resolvConf: "nameserver 127.0.0.1", port: 1 });
}

function egress(entries: string[], options: Partial<EgressRelayOptions> = {}): EgressRelay {
  const resolver = hostsResolver({});
  return new EgressRelay({ rules: entries.map(parseNetworkRule), launch: new Map(), resolver, ...options });
}

async function ask(relay: EgressRelay, name: string, type = A) {
  const reply = await relay.answerQuery(dnsQuery({ name, type }));
  assert.ok(reply !== null);
  return readDnsReply(reply);
}

/** What a command holds of a connection it made. */
interface Dialled extends Disposable {
  readonly command: Deno.UnixConn;
  /** Resolves once the relay is through with it. */
  readonly done: Promise<void>;
  /** `null` until decided. */
  readonly verdict: () => "accepted" | "refused" | null;
}

/** Dials through the relay as the keeper does: over a unix socket, without the helper. */
class Dialler implements AsyncDisposable {
  readonly #directory = Deno.makeTempDirSync();
  readonly #listener = Deno.listen({ transport: "unix", path: `${this.#directory}/s` });
  readonly #relay: EgressRelay;

  constructor(relay: EgressRelay) {
    this.#relay = relay;
  }

  async dial(address: string, port: number): Promise<Dialled> {
    const accepted = this.#listener.accept();
    const command = await Deno.connect({ transport: "unix", path: `${this.#directory}/s` });
    const connection = await accepted;
    let verdict: "accepted" | "refused" | null = null;
    const done = this.#relay.relay({
      address,
      port,
      accept() {
        verdict = "accepted";
        return Promise.resolve(connection);
      },
      refuse() {
        verdict = "refused";
        connection.close();
      },
    });
    return { command, done, verdict: () => verdict, [Symbol.dispose]: () => closed(command) };
  }

  /** Whether a connection is refused, and without a byte. */
  async refuses(address: string, port: number): Promise<boolean> {
    using dialled = await this.dial(address, port);
    const all = await readAll(dialled.command);
    await dialled.done;
    return dialled.verdict() === "refused" && all.length === 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await Deno.remove(this.#directory, { recursive: true });
  }
}

function closed(connection: Deno.Conn): void {
  try {
    connection.close();
  } catch {
    // Closed before.
  }
}

async function readAll(connection: Deno.Conn): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const buffer = new Uint8Array(65_536);
  for (let n = await connection.read(buffer); n !== null; n = await connection.read(buffer)) {
    parts.push(buffer.slice(0, n));
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

async function writeAll(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let rest = bytes; rest.length > 0;) rest = rest.subarray(await connection.write(rest));
}

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const bytes = (value: string) => new TextEncoder().encode(value);
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A TCP service on this machine; `serve` has each connection and closes it. */
class Service implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly port: number;
  readonly #open = new Set<Deno.TcpConn>();
  accepted = 0;

  constructor(serve: (connection: Deno.TcpConn) => Promise<void>, hostname = "127.0.0.1") {
    const listener = this.#listener = Deno.listen({ hostname, port: 0 });
    this.port = listener.addr.port;
    void (async () => {
      for await (const connection of listener) {
        this.accepted += 1;
        this.#open.add(connection);
        void serve(connection).catch(() => {}).finally(() => {
          this.#open.delete(connection);
          closed(connection);
        });
      }
    })().catch(() => {});
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const connection of this.#open) closed(connection);
    return Promise.resolve();
  }
}

/** Reads until the other side has ended, then answers with what it read. */
const echoAfterEnd = async (connection: Deno.TcpConn) => {
  const all = await readAll(connection);
  await writeAll(connection, all);
  await connection.closeWrite();
};

/** A relay that may reach one service of this machine. */
function relayTo(service: Service, options: Partial<EgressRelayOptions> = {}): EgressRelay {
  return egress([`127.0.0.1:${service.port}`], options);
}

Deno.test("names: a rule's host resolves, every other is refused at once, and an address is no name", async () => {
  const resolver = hostsResolver({ "api.example": ["8.8.8.8", "8.8.4.4", "2606:4700::1"] });
  await using relay = egress(["https://api.example", "127.0.0.1:80", "gone.example"], { resolver });
  assert.deepEqual((await ask(relay, "API.Example")).addresses, ["8.8.8.8", "8.8.4.4"]);
  assert.deepEqual((await ask(relay, "api.example", AAAA)).addresses, ["2606:4700::1"]);
  for (const type of [16, 10, 255, 12, 33, 65]) {
    const reply = await ask(relay, "api.example", type);
    assert.deepEqual([reply.code, reply.addresses], [0, []], `type ${type}`);
  }
  for (const name of ["evil.test", "x.api.example", "127.0.0.1", "", "localhost"]) {
    assert.equal((await ask(relay, name)).code, 5, name);
  }
  const notText = await relay.answerQuery(dnsQuery({ labels: ["api.example"], type: A }));
  assert.equal(readDnsReply(notText!).code, 5, "one label with a dot in it is another name");
});

Deno.test("names: fragments go unanswered, what can't be read is told so", async () => {
  await using relay = egress(["api.example"]);
  assert.equal(await relay.answerQuery(new Uint8Array(11)), null);
  assert.equal(readDnsReply((await relay.answerQuery(new Uint8Array(12)))!).code, 1);
  const compressed = new Uint8Array([0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1]);
  assert.equal(readDnsReply((await relay.answerQuery(compressed))!).code, 1);
});

Deno.test("names: unknown is NXDOMAIN, silence is SERVFAIL, and only names of the rules reach a name server", async () => {
  await using server = await nameServer("127.0.0.1", { "api.example": { a: "8.8.8.8" }, "mute.example": "silent" });
  const resolver = createNameResolver({
    hosts: "",
    resolvConf: "nameserver 127.0.0.1",
    port: server.port,
    bounds: { resolveName: 300, nameserverReply: 120 },
  });
  await using relay = egress(["api.example", "gone.example", "mute.example"], { resolver });
  assert.equal((await ask(relay, "gone.example")).code, 3);
  assert.equal((await ask(relay, "mute.example")).code, 2);
  assert.deepEqual((await ask(relay, "ApI.eXaMpLe")).addresses, ["8.8.8.8"]);

  const before = server.asked.length;
  // A tunnel: data in names, in other types, in labels that are no text, in the case of letters, behind the question.
  const secret = "736563726574".repeat(8).slice(0, 60);
  for (const type of [A, AAAA, 10, 16, 255]) {
    for (const name of [`${secret}.evil.test`, `${secret}.api.example`, `${secret}.${secret}.${secret}.test`]) {
      assert.equal((await ask(relay, name, type)).code, 5);
    }
  }
  for (const labels of [["\u0001\u0002", "api", "example"], ["api", "example", "\u00ff"], ["api.example"]]) {
    assert.equal(readDnsReply((await relay.answerQuery(dnsQuery({ labels, type: A })))!).code, 5);
  }
  for (const type of [10, 16, 255, 65]) assert.equal((await ask(relay, "api.example", type)).code, 0);
  assert.equal(server.asked.length, before, "nobody was asked for any of these");
  const carrying = new Uint8Array([...dnsQuery({ name: "api.example", type: A }), ...bytes(secret)]);
  assert.deepEqual(readDnsReply((await relay.answerQuery(carrying))!).addresses, ["8.8.8.8"]);
  const allowed = /^(api|gone|mute)\.example (A|AAAA)$/;
  assert.deepEqual(server.asked.filter((question) => !allowed.test(question)), []);
});

Deno.test("names: those who ask while a name is being resolved share one answer", async () => {
  const table: Record<string, NameAnswer> = { "api.example": { a: "8.8.8.8" } };
  await using server = await nameServer("127.0.0.1", table);
  const resolver = createNameResolver({ hosts: "", resolvConf: "nameserver 127.0.0.1", port: server.port });
  await using relay = egress(["api.example"], { resolver });
  const replies = await Promise.all(Array.from({ length: 200 }, () => ask(relay, "api.example")));
  assert.ok(replies.every(({ addresses }) => addresses[0] === "8.8.8.8"));
  assert.deepEqual([...server.asked].sort(), ["api.example A", "api.example AAAA"]);
  table["api.example"] = { a: "9.9.9.9" };
  assert.deepEqual((await ask(relay, "api.example")).addresses, ["9.9.9.9"], "the next is asked anew");
});

Deno.test("names: one that is slow delays no other, and too many waiting ones are lost, not kept", async () => {
  await using server = await nameServer("127.0.0.1", { "quick.example": { a: "8.8.8.8" }, "mute.example": "silent" });
  const resolver = createNameResolver({ hosts: "", resolvConf: "nameserver 127.0.0.1", port: server.port });
  await using relay = egress(["quick.example", "mute.example", "evil.example"], { resolver });
  const query = dnsQuery({ name: "mute.example", type: A });
  const slow = [relay.answerQuery(query)];
  const from = performance.now();
  assert.deepEqual((await ask(relay, "quick.example")).addresses, ["8.8.8.8"]);
  assert.ok(performance.now() - from < 1_000);
  while (slow.length < 256) slow.push(relay.answerQuery(query));
  assert.equal(await relay.answerQuery(query), null);
  assert.equal((await ask(relay, "elsewhere.example")).code, 5, "what needs no resolver is still answered");
  await relay[Symbol.asyncDispose]();
  assert.deepEqual(await Promise.all(slow), slow.map(() => null), "the end of a session waits for none of them");
});

Deno.test("rebinding: an allowed name that leads inside is not told, not bound and not carried", async () => {
  let reached = 0;
  await using service = new Service(() => Promise.resolve(void reached++));
  const table: Record<string, NameAnswer> = {};
  await using server = await nameServer("127.0.0.1", table);
  const resolver = createNameResolver({ hosts: "", resolvConf: "nameserver 127.0.0.1", port: server.port });
  await using relay = egress([`api.example:${service.port}`], { resolver });
  await using dialler = new Dialler(relay);
  const inside = ["127.0.0.1", "169.254.169.254", "10.0.0.1", "192.168.1.1", "100.64.0.1", "0.0.0.0", "168.63.129.16"];
  for (const a of inside) {
    table["api.example"] = { a, aaaa: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ...a.split(".").map(Number)] };
    for (const type of [A, AAAA]) {
      const reply = await ask(relay, "api.example", type);
      assert.deepEqual([reply.code, reply.addresses], [0, []], `${a} for type ${type}`);
    }
    assert.ok(await dialler.refuses(a, service.port), a);
  }
  // Public first, inside at the second question: the first answer opens the first address alone.
  table["api.example"] = { a: "8.8.8.8" };
  assert.deepEqual((await ask(relay, "api.example")).addresses, ["8.8.8.8"]);
  table["api.example"] = { a: "127.0.0.1" };
  assert.deepEqual((await ask(relay, "api.example")).addresses, []);
  assert.ok(await dialler.refuses("127.0.0.1", service.port));
  assert.deepEqual([reached, service.accepted], [0, 0]);
});

Deno.test("a service of this machine is reached only by its literal address or 'localhost', on the rule's port", async () => {
  await using service = new Service(echoAfterEnd);
  await using other = new Service(echoAfterEnd);
  const names = hostsResolver({ "host.example": ["127.0.0.1"] });
  const rules: [string, boolean][] = [
    [`127.0.0.1:${service.port}`, true],
    [`localhost:${service.port}`, true],
    [`host.example:${service.port}`, false],
    [`127.0.0.2:${service.port}`, false],
    [`[::1]:${service.port}`, false],
    [`127.0.0.1:${other.port}`, false],
    ["https://127.0.0.1", false],
  ];
  for (const [entry, reaches] of rules) {
    const launch = await resolveLaunchAddresses([parseNetworkRule(entry)], names);
    await using relay = egress([entry], { resolver: names, launch: launch.addresses });
    await using dialler = new Dialler(relay);
    if (!reaches) {
      await ask(relay, "host.example");
      assert.ok(await dialler.refuses("127.0.0.1", service.port), entry);
      continue;
    }
    using dialled = await dialler.dial("127.0.0.1", service.port);
    await writeAll(dialled.command, bytes("hello"));
    await dialled.command.closeWrite();
    assert.equal(text(await readAll(dialled.command)), "hello", entry);
    await dialled.done;
    assert.ok(await dialler.refuses("127.0.0.1", other.port));
    assert.ok(await dialler.refuses("127.0.0.1", 80));
  }
});

Deno.test("a name bound long ago opens nothing any more", async () => {
  await using service = new Service(echoAfterEnd);
  let now = 0;
  const resolver = createNameResolver({ hosts: "127.0.0.1 localhost", resolvConf: "" });
  await using relay = egress([`localhost:${service.port}`], { resolver, now: () => now });
  await using dialler = new Dialler(relay);
  assert.ok(await dialler.refuses("127.0.0.1", service.port), "nothing was resolved yet");
  await ask(relay, "localhost");
  now = NAME_BINDING_MS - 1;
  using dialled = await dialler.dial("127.0.0.1", service.port);
  await dialled.command.closeWrite();
  await dialled.done;
  assert.equal(dialled.verdict(), "accepted");
  now = NAME_BINDING_MS;
  assert.ok(await dialler.refuses("127.0.0.1", service.port));
});

Deno.test("what is no IPv4 address is refused, whatever text it is", async () => {
  await using service = new Service(echoAfterEnd);
  await using relay = egress([`127.0.0.1:${service.port}`, `[::1]:${service.port}`, `localhost:${service.port}`], {
    launch: new Map([["localhost", [parseIpAddress("127.0.0.1")!, parseIpAddress("::1")!]]]),
  });
  await using dialler = new Dialler(relay);
  for (const address of ["::1", "[::1]", "::ffff:127.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433", ""]) {
    assert.ok(await dialler.refuses(address, service.port), address);
  }
});

Deno.test("proxy confusion: absolute forms and CONNECT are bytes to the address that was dialled", async () => {
  const requests = [
    "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n",
    "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n",
    "\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x16",
    "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
  ];
  await using service = new Service(echoAfterEnd);
  await using forbidden = new Service(() => Promise.resolve());
  await using relay = relayTo(service);
  await using dialler = new Dialler(relay);
  for (const request of [...requests, `CONNECT 127.0.0.1:${forbidden.port} HTTP/1.1\r\n\r\n`]) {
    using dialled = await dialler.dial("127.0.0.1", service.port);
    await writeAll(dialled.command, bytes(request));
    await dialled.command.closeWrite();
    assert.equal(text(await readAll(dialled.command)), request, "as it was, from where it was sent");
    await dialled.done;
  }
  assert.equal(forbidden.accepted, 0);
});

Deno.test("a proxy of this process's environment is not used", async () => {
  await using service = new Service(echoAfterEnd);
  await using proxy = new Service(() => Promise.resolve());
  const variables = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
  const program = `
    import { EgressRelay } from ${JSON.stringify(new URL("./egress_relay.ts", import.meta.url).href)};
    import { parseNetworkRule } from ${JSON.stringify(new URL("../artifact/network_rules.ts", import.meta.url).href)};
    const relay = new EgressRelay({ rules: [parseNetworkRule("127.0.0.1:${service.port}")], launch: new Map() });
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const [accepted, command] = await Promise.all([listener.accept(), Deno.connect({ port: listener.addr.port })]);
    const done = relay.relay({ address: "127.0.0.1", port: ${service.port}, accept: () => accepted, refuse() {} });
    await command.write(new TextEncoder().encode("past it"));
    await command.closeWrite();
    console.log(await new Response(command.readable).text());
    await done;
    listener.close();`;
  const output = await new Deno.Command(Deno.execPath(), {
    args: ["eval", program],
    env: Object.fromEntries(variables.map((name) => [name, `http://127.0.0.1:${proxy.port}`])),
  }).output();
  assert.equal(text(output.stdout), "past it\n", text(output.stderr));
  assert.deepEqual([service.accepted, proxy.accepted], [1, 0]);
});

Deno.test("nothing listens there: the connection ends without a byte", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  await using relay = egress([`127.0.0.1:${port}`]);
  await using dialler = new Dialler(relay);
  assert.ok(await dialler.refuses("127.0.0.1", port));
  assert.equal(relay.connections, 0);
});

Deno.test("half-close passes in both directions, and the other direction goes on", async () => {
  const late = new Uint8Array(300_000).map((_, at) => at * 31);
  await using service = new Service(async (connection) => {
    // Ends its own direction first and still takes what comes.
    await writeAll(connection, bytes("greeting"));
    await connection.closeWrite();
    received.resolve(await readAll(connection));
  });
  const received = Promise.withResolvers<Uint8Array>();
  await using relay = relayTo(service);
  await using dialler = new Dialler(relay);
  using dialled = await dialler.dial("127.0.0.1", service.port);
  assert.equal(text(await readAll(dialled.command)), "greeting");
  await writeAll(dialled.command, late);
  await dialled.command.closeWrite();
  assert.deepEqual(await received.promise, late);
  await dialled.done;
  assert.equal(relay.connections, 0);
});

Deno.test("bytes arrive whole and in order both ways at once", async () => {
  await using service = new Service(async (connection) => {
    const buffer = new Uint8Array(10_000);
    for (let n = await connection.read(buffer); n !== null; n = await connection.read(buffer)) {
      await writeAll(connection, buffer.subarray(0, n));
    }
    await connection.closeWrite();
  });
  await using relay = relayTo(service);
  await using dialler = new Dialler(relay);
  const sent = crypto.getRandomValues(new Uint8Array(60_000));
  const times = 100;
  using dialled = await dialler.dial("127.0.0.1", service.port);
  const sending = (async () => {
    for (let i = 0; i < times; i++) await writeAll(dialled.command, sent);
    await dialled.command.closeWrite();
  })();
  const back = await readAll(dialled.command);
  await sending;
  assert.equal(back.length, sent.length * times);
  for (let i = 0; i < times; i++) {
    assert.deepEqual(back.subarray(i * sent.length, (i + 1) * sent.length), sent, `block ${i}`);
  }
});

Deno.test("backpressure both ways: what one side does not take, the other can't send on", async () => {
  const block = new Uint8Array(1 << 16);
  const flood = async (connection: Deno.Conn, count: { bytes: number }) => {
    for (;;) count.bytes += await connection.write(block);
  };
  const fromService = { bytes: 0 };
  await using service = new Service((connection) => flood(connection, fromService));
  await using relay = relayTo(service);
  await using dialler = new Dialler(relay);
  using dialled = await dialler.dial("127.0.0.1", service.port);
  const fromCommand = { bytes: 0 };
  const sending = flood(dialled.command, fromCommand).catch(() => {});
  await sleep(300);
  const before = { service: fromService.bytes, command: fromCommand.bytes };
  await sleep(500);
  assert.ok(before.service > 0 && before.command > 0);
  assert.deepEqual({ service: fromService.bytes, command: fromCommand.bytes }, before, "both stand still");
  assert.ok(before.service < 32 << 20 && before.command < 32 << 20, "and what is under way fits the sockets' buffers");

  // One that stands still delays no other.
  await using quick = new Service(echoAfterEnd);
  await using both = egress([`127.0.0.1:${service.port}`, `127.0.0.1:${quick.port}`]);
  await using second = new Dialler(both);
  using stuck = await second.dial("127.0.0.1", service.port);
  await sleep(50);
  const from = performance.now();
  using other = await second.dial("127.0.0.1", quick.port);
  await writeAll(other.command, bytes("now"));
  await other.command.closeWrite();
  assert.equal(text(await readAll(other.command)), "now");
  assert.ok(performance.now() - from < 1_000);
  assert.equal(stuck.verdict(), "accepted");
  closed(dialled.command);
  await sending;
  await dialled.done;
});

Deno.test("128 connections are carried at once; the next is refused, and one that ended makes room", async () => {
  await using service = new Service(echoAfterEnd);
  await using relay = relayTo(service);
  await using dialler = new Dialler(relay);
  const held: Dialled[] = [];
  while (held.length < MAX_RELAYED_CONNECTIONS) held.push(await dialler.dial("127.0.0.1", service.port));
  while (held.some(({ verdict }) => verdict() === null)) await sleep(5);
  assert.equal(relay.connections, 128);
  assert.ok(await dialler.refuses("127.0.0.1", service.port));
  const finish = async ({ command, done }: Dialled, word: string) => {
    await writeAll(command, bytes(word));
    await command.closeWrite();
    assert.equal(text(await readAll(command)), word);
    await done;
  };
  await finish(held[0]!, "first");
  assert.equal(relay.connections, 127);
  held.push(await dialler.dial("127.0.0.1", service.port));
  // Every one of them still works.
  await Promise.all(held.slice(1).map((dialled, index) => finish(dialled, `held ${index}`)));
  assert.equal(relay.connections, 0);
  for (const { command } of held) closed(command);
});

Deno.test("connections that stand still end: a silent peer, one that takes nothing, one that half closed and waits", async () => {
  const bounds = { ...DEFAULT_TIME_BOUNDS, egressStall: 250 };
  const behaviours: [string, (connection: Deno.TcpConn) => Promise<void>, (command: Deno.Conn) => Promise<unknown>][] =
    [
      ["both silent", () => sleep(5_000).then(() => {}), () => Promise.resolve()],
      [
        "the service takes nothing",
        () => sleep(5_000).then(() => {}),
        (command) => writeAll(command, new Uint8Array(64 << 20)),
      ],
      [
        "the command takes nothing",
        (connection) => writeAll(connection, new Uint8Array(64 << 20)),
        () => Promise.resolve(),
      ],
      ["the command has ended", () => sleep(5_000).then(() => {}), (command) => command.write(bytes("x"))],
      [
        "the service takes nothing but sends",
        async (connection) => {
          for (;;) {
            await writeAll(connection, bytes("tick"));
            await sleep(20);
          }
        },
        (command) => Promise.all([writeAll(command, new Uint8Array(64 << 20)), readAll(command)]),
      ],
    ];
  for (const [what, serve, act] of behaviours) {
    await using service = new Service(serve);
    await using relay = relayTo(service, { bounds });
    await using dialler = new Dialler(relay);
    using dialled = await dialler.dial("127.0.0.1", service.port);
    const from = performance.now();
    const acting = act(dialled.command).catch(() => {});
    await dialled.done;
    const took = performance.now() - from;
    assert.ok(took >= 240 && took < 3_000, `${what}: ${took} ms`);
    assert.equal(relay.connections, 0);
    closed(dialled.command);
    await acting;
  }
});

Deno.test("a transfer in one direction alone outlives the bound for standing still", async () => {
  const bounds = { ...DEFAULT_TIME_BOUNDS, egressStall: 200 };
  await using service = new Service(async (connection) => {
    for (let i = 0; i < 12; i++) {
      await writeAll(connection, bytes("."));
      await sleep(60);
    }
  });
  await using relay = relayTo(service, { bounds });
  await using dialler = new Dialler(relay);
  using dialled = await dialler.dial("127.0.0.1", service.port);
  assert.equal(text(await readAll(dialled.command)), ".".repeat(12));
  await dialled.command.closeWrite();
  await dialled.done;
});

Deno.test("a connect that gets no answer ends with its bound, holds a place until then, and leaves no socket", async () => {
  // The kernel drops what comes to a queue that is full and that nobody takes from.
  const full = Deno.listen({ hostname: "127.0.0.1", port: 0, tcpBacklog: 1 });
  const { port } = full.addr;
  const filling: Deno.Conn[] = [];
  try {
    for (;;) filling.push(await Deno.connect({ port, signal: AbortSignal.timeout(300) }));
  } catch {
    // It is full.
  }
  await using relay = egress([`127.0.0.1:${port}`], { bounds: { ...DEFAULT_TIME_BOUNDS, egressConnect: 1_000 } });
  await using dialler = new Dialler(relay);
  const descriptors = () => [...Deno.readDirSync("/proc/self/fd")].length;
  const before = descriptors();
  const from = performance.now();
  const dialled: Dialled[] = [];
  while (dialled.length < MAX_RELAYED_CONNECTIONS) dialled.push(await dialler.dial("127.0.0.1", port));
  assert.equal(relay.connections, MAX_RELAYED_CONNECTIONS);
  assert.ok(await dialler.refuses("127.0.0.1", port), "no place is left");
  assert.ok(performance.now() - from < 900, "and that is told at once");
  await Promise.all(dialled.map(({ done }) => done));
  assert.ok(performance.now() - from < 3_000);
  for (const { command, verdict } of dialled) {
    assert.equal(verdict(), "refused");
    assert.equal((await readAll(command)).length, 0);
    closed(command);
  }
  assert.equal(relay.connections, 0);
  assert.equal(descriptors(), before);
  for (const connection of filling) closed(connection);
  full.close();
});

Deno.test("the end of the session closes what is carried and refuses what comes", async () => {
  await using service = new Service(echoAfterEnd);
  const relay = relayTo(service);
  await using dialler = new Dialler(relay);
  using dialled = await dialler.dial("127.0.0.1", service.port);
  await writeAll(dialled.command, bytes("under way"));
  while (dialled.verdict() === null) await sleep(5);
  await relay[Symbol.asyncDispose]();
  await dialled.done;
  assert.equal((await readAll(dialled.command)).length, 0);
  assert.equal(relay.connections, 0);
  assert.ok(await dialler.refuses("127.0.0.1", service.port));
});

Deno.test("a command that is gone before its answer leaves no connection behind", async () => {
  await using service = new Service(echoAfterEnd);
  await using relay = relayTo(service);
  const refused = await new Promise<string>((resolve) => {
    void relay.relay({
      address: "127.0.0.1",
      port: service.port,
      accept: () => Promise.reject(new Deno.errors.BrokenPipe("gone")),
      refuse: () => resolve("refused"),
    }).then(() => resolve("over"));
  });
  assert.equal(refused, "over");
  assert.equal(relay.connections, 0);
});

Deno.test("launch: hosts are asked for once each, an unknown one is skipped, a silent server is told", async () => {
  await using server = await nameServer("127.0.0.1", {
    "api.example": { a: "8.8.8.8" },
    "inside.example": { a: "10.0.0.1" },
    "mute.example": "silent",
  });
  const resolver = createNameResolver({
    hosts: "",
    resolvConf: "nameserver 127.0.0.1",
    port: server.port,
    bounds: { resolveName: 300, nameserverReply: 120 },
  });
  const entries = [
    "https://api.example",
    "api.example.:22",
    "inside.example",
    "gone.example",
    "mute.example",
    "8.8.4.4",
  ];
  const rules = entries.map(parseNetworkRule);
  const launch = await resolveLaunchAddresses(rules, resolver);
  assert.deepEqual([...launch.addresses.keys()].sort(), ["8.8.4.4", "api.example", "inside.example"]);
  assert.equal(launch.unanswered.length, 1);
  assert.match(launch.unanswered[0]!, /^mute\.example: no name server answered/);
  assert.equal(server.asked.filter((question) => question === "api.example A").length, 1);
  const relay = new EgressRelay({ rules, launch: launch.addresses, resolver });
  await using dialler = new Dialler(relay);
  assert.ok(await dialler.refuses("10.0.0.1", 80), "resolved at launch, and still not public");
  await assert.rejects(resolveLaunchAddresses(rules, resolver, AbortSignal.abort(new Error("gone"))), /gone/);
});
