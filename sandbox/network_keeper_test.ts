import assert from "node:assert/strict";
import { libc } from "../base/libc.ts";
import { stillRunning, until } from "../tests/support/process_tree.ts";
import { checkoutHelper } from "./confine_helper.ts";
import type { CommandRecord } from "./confine_records.ts";
import { type DialledConnection, type KeeperStart, NetworkKeeper, parsePreamble } from "./network_keeper.ts";
import { ConfinedPlace } from "./testing/confined_place.ts";
import { buildSanitized, confineSource } from "./testing/sanitized_helper.ts";

/** Copies one direction until its end, which it passes on. */
async function carry(from: Deno.Conn, to: Deno.Conn): Promise<void> {
  const buffer = new Uint8Array(65_536);
  try {
    for (let length = await from.read(buffer); length !== null; length = await from.read(buffer)) {
      for (let rest = buffer.subarray(0, length); rest.length > 0;) rest = rest.subarray(await to.write(rest));
    }
    await to.closeWrite();
  } catch {
    // The other side hung up.
  }
}

/** A keeper, a client that runs inside its network, and everything the keeper was asked. */
class Network implements AsyncDisposable {
  readonly dialled: string[] = [];
  readonly asked: string[] = [];
  readonly connections: Deno.Conn[] = [];

  private constructor(readonly place: ConfinedPlace, readonly keeper: NetworkKeeper, readonly client: string) {}

  static async open(changes: Partial<KeeperStart> = {}, helper?: string): Promise<Network> {
    const used = helper ?? await checkoutHelper();
    const place = new ConfinedPlace(used);
    const client = `${place.root}/client`;
    const { success, stderr } = await new Deno.Command("cc", {
      args: ["-static", "-O1", "-o", client, confineSource("network_client.c")],
    }).output();
    assert.ok(success, new TextDecoder().decode(stderr));
    const network: { made?: Network } = {};
    const keeper = await NetworkKeeper.start({
      helper: used,
      controlDirectory: place.control,
      ports: [443, 80],
      startMs: 10_000,
      preambleMs: 500,
      async onConnection(connection) {
        network.made!.dialled.push(`${connection.address}:${connection.port}`);
        if (connection.port === 443) return connection.refuse();
        const accepted = await connection.accept();
        network.made!.connections.push(accepted);
        void carry(accepted, accepted);
      },
      onQuery(message, address) {
        network.made!.asked.push(`${new TextDecoder().decode(message)}@${address}`);
        return Promise.resolve(new TextEncoder().encode(`re:${new TextDecoder().decode(message)}`));
      },
      ...changes,
    });
    return network.made = new Network(place, keeper, client);
  }

  /** Starts the client inside. */
  start(args: readonly string[], extra: readonly CommandRecord[] = [this.keeper.join]) {
    const rule: CommandRecord = { op: "rule", rights: "RX", presence: "req", path: this.client };
    return this.place.start(this.client, ["client", ...args], { records: [rule, ...extra] });
  }

  /** Runs the client inside; what it printed. */
  async run(...args: string[]): Promise<string> {
    const end = await this.start(args).end;
    assert.deepEqual(end.failure, null);
    return end.stdout.text().trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.keeper.stop();
    for (const connection of this.connections) {
      try {
        connection.close();
      } catch {
        // Closed by its end.
      }
    }
    await this.place[Symbol.asyncDispose]();
  }
}

Deno.test("every address a command dials on a listened port is handed on with the address it dialled", async () => {
  await using network = await Network.open();
  assert.equal(await network.run("dial", "93.184.216.34", "80", "5"), "received 5");
  assert.equal(await network.run("dial", "127.0.0.1", "80", "0"), "received 0");
  assert.equal(await network.run("dial", "169.254.169.254", "80", "1"), "received 1");
  // Refused: closed without a byte.
  assert.match(await network.run("dial", "10.0.0.1", "443", "0"), /^(received 0|recv ECONNRESET)$/);
  assert.deepEqual(network.dialled, ["93.184.216.34:80", "127.0.0.1:80", "169.254.169.254:80", "10.0.0.1:443"]);
});

Deno.test("nothing else leads out", async () => {
  await using network = await Network.open();
  const outside = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  assert.equal(await network.run("dial", "127.0.0.1", String(outside.addr.port), "1"), "connect ECONNREFUSED");
  assert.equal(await network.run("dial", "1.1.1.1", "22", "1"), "connect ECONNREFUSED");
  assert.equal(await network.run("dial", "2606:4700:4700::1111", "80", "1"), "connect ENETUNREACH");
  assert.equal(await network.run("dial", "::1", "80", "1"), "connect ECONNREFUSED");
  outside.close();
  assert.deepEqual(network.dialled, []);
});

Deno.test("bytes arrive whole in both directions, and each half closes by itself", async () => {
  await using network = await Network.open();
  for (const bytes of [1, 65_536, 3_000_000]) {
    assert.equal(await network.run("dial", "1.2.3.4", "80", String(bytes)), `received ${bytes}`);
  }
});

Deno.test("a side that is slow holds the other back and loses nothing", async () => {
  let accepted: Deno.UnixConn | undefined;
  await using network = await Network.open({
    async onConnection(connection) {
      accepted = await connection.accept();
    },
  });
  const command = network.start(["dial", "1.2.3.4", "80", "3000000"]);
  await until("it is connected", () => accepted !== undefined);
  await new Promise((resolve) => setTimeout(resolve, 300));
  // Then all that was sent, and all of it back, behind the command's own end.
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const buffer = new Uint8Array(30_000);
  for (let length = await accepted!.read(buffer); length !== null; length = await accepted!.read(buffer)) {
    parts.push(buffer.slice(0, length));
  }
  const all = new Uint8Array(await new Blob(parts).arrayBuffer());
  assert.equal(all.length, 3_000_000);
  for (let rest = all; rest.length > 0;) rest = rest.subarray(await accepted!.write(rest));
  accepted!.close();
  assert.equal((await command.end).stdout.text().trim(), "received 3000000");
});

Deno.test("128 connections are held at once, and gone with the command", async () => {
  await using network = await Network.open();
  assert.equal(await network.run("hold", "1.2.3.4", "80", "128"), "held 128");
  assert.equal(network.dialled.length, 128);
  assert.equal(await network.run("hold", "1.2.3.4", "80", "100"), "held 100");
});

Deno.test("names are asked for at the address the command asked, many at once", async () => {
  const waiting: (() => void)[] = [];
  await using network = await Network.open({
    async onQuery(message, address) {
      const text = new TextDecoder().decode(message);
      if (text === "never") return null;
      if (text === "broken") throw new Error("no answer");
      // None is answered before all were asked.
      if (waiting.length < 9) await new Promise<void>((resolve) => waiting.push(resolve));
      else waiting.forEach((resolve) => resolve());
      return new TextEncoder().encode(`${text} at ${address}`);
    },
  });
  const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => network.run("ask", `9.9.9.${i}`, `q${i}`)));
  assert.deepEqual(answers, Array.from({ length: 10 }, (_, i) => `q${i} at 9.9.9.${i} from 9.9.9.${i}`));
  assert.equal(await network.run("ask", "8.8.8.8", "never"), "recv EAGAIN");
  assert.equal(await network.run("ask", "8.8.8.8", "broken"), "recv EAGAIN");
});

Deno.test("commands of a session share its loopback, and no other session's", async () => {
  await using network = await Network.open();
  await using other = await Network.open();
  const server = network.start(["serve", "5000"]);
  await server.started;
  assert.equal(await other.run("dial", "127.0.0.1", "5000", "0"), "connect ECONNREFUSED");
  await until("it is served", async () => (await network.run("dial", "127.0.0.1", "5000", "0")) === "received 1");
  await server.end;
  // What the keeper listens on is taken.
  assert.equal(await network.run("serve", "443"), "bind EACCES");
});

Deno.test("a connection without the token is closed, and one that says nothing after a while", async () => {
  await using network = await Network.open();
  const [name] = [...Deno.readDirSync(network.place.control)].map((entry) => entry.name);
  const stranger = async (bytes: Uint8Array) => {
    const connection = await Deno.connect({ transport: "unix", path: `${network.place.control}/${name}` });
    if (bytes.length > 0) await connection.write(bytes);
    const length = await connection.read(new Uint8Array(10)).catch(() => null);
    connection.close();
    return length;
  };
  const guess = new Uint8Array(42).fill(7);
  guess.set(new TextEncoder().encode("MURC"));
  assert.equal(await stranger(guess), null);
  assert.equal(await stranger(guess.subarray(0, 10)), null);
  assert.equal(await stranger(new Uint8Array()), null);
  assert.deepEqual(network.dialled, []);
  assert.equal(await network.run("dial", "1.2.3.4", "80", "3"), "received 3");
});

Deno.test("a preamble is the keeper's only as a whole", () => {
  const token = crypto.getRandomValues(new Uint8Array(32));
  const good = new Uint8Array([...new TextEncoder().encode("MURC"), ...token, 192, 0, 2, 7, 1, 187]);
  assert.deepEqual(parsePreamble(good, token), { address: "192.0.2.7", port: 443 });
  for (let at = 0; at < 36; at++) {
    const changed = good.slice();
    changed[at]! ^= 1;
    assert.equal(parsePreamble(changed, token), null);
  }
  assert.equal(parsePreamble(good.subarray(0, 41), token), null);
  assert.equal(parsePreamble(new Uint8Array([...good, 0]), token), null);
  assert.equal(parsePreamble(new Uint8Array(), token), null);
});

Deno.test("a command whose keeper is gone runs in an empty network", async () => {
  await using network = await Network.open();
  const { join } = network.keeper;
  libc().kill(network.keeper.pid, 9);
  await network.keeper.ended;
  assert.equal(network.keeper.alive, false);
  const command = network.start(["dial", "1.2.3.4", "80", "1"], [join]);
  assert.equal((await command.started)?.joined, false);
  assert.match((await command.end).stdout.text(), /^connect ENETUNREACH/);
  assert.deepEqual(network.dialled, []);
});

Deno.test("a keeper that ends leaves its commands without a way out", async () => {
  await using network = await Network.open();
  const sleeping = network.place.start("/bin/sh", ["sh", "-c", `sleep 0.5; exec ${network.client} dial 1.2.3.4 80 1`], {
    records: [network.keeper.join, { op: "rule", rights: "RX", presence: "req", path: network.client }],
  });
  assert.equal((await sleeping.started)?.joined, true);
  await network.keeper.stop();
  assert.match((await sleeping.end).stdout.text(), /^connect ECONNREFUSED/);
});

Deno.test("no record leads into the host's own network", async () => {
  await using network = await Network.open();
  const host = Deno.statSync("/proc/self/ns/net").ino!;
  const inHost = network.start(["dial", "1.2.3.4", "80", "1"], [{ op: "join", pid: Deno.pid, netns: host }]);
  const end = await inHost.end;
  if (end.failure === null) {
    // Once this process closed itself to others, an ordinary user's helper cannot look at it and takes no keeper to be there.
    assert.equal((await inHost.started)?.joined, false);
    assert.match(end.stdout.text(), /^connect ENETUNREACH/);
  } else {
    assert.equal(end.failure.stage, "join");
    assert.equal(end.stdout.text(), "");
  }
  // Another process under the keeper's number is not the keeper.
  const other = network.start(["dial", "1.2.3.4", "80", "1"], [{ op: "join", pid: Deno.pid, netns: host + 1 }]);
  assert.equal((await other.started)?.joined, false);
  await other.end;
});

Deno.test("the keeper ends when the runtime does, by whatever way", async () => {
  const script = `
    const { NetworkKeeper } = await import(Deno.args[0]);
    const keeper = await NetworkKeeper.start({
      helper: Deno.args[1], controlDirectory: Deno.args[2], ports: [80], startMs: 10000, preambleMs: 1000,
      onConnection: (connection) => connection.refuse(), onQuery: () => Promise.resolve(null),
    });
    console.log(keeper.pid);
    await new Promise(() => setInterval(() => {}, 1000));`;
  await using place = new ConfinedPlace(await checkoutHelper());
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      `data:text/javascript,${encodeURIComponent(script)}`,
      import.meta.resolve("./network_keeper.ts"),
      await checkoutHelper(),
      place.control,
    ],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = child.stdout.getReader();
  const pid = Number(new TextDecoder().decode((await reader.read()).value));
  const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
  const keeper = [{ pid, start: stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]!, command: "" }];
  child.kill("SIGKILL");
  await until("it is gone", () => stillRunning(keeper).length === 0, 1_000);
  await reader.cancel();
  await child.status;
});

Deno.test("a keeper that can't be is an error that says why", async () => {
  await using place = new ConfinedPlace(await checkoutHelper());
  const start = (helper: string): KeeperStart => ({
    helper,
    controlDirectory: place.control,
    ports: [80],
    startMs: 300,
    preambleMs: 100,
    onConnection: (connection: DialledConnection) => connection.refuse(),
    onQuery: () => Promise.resolve(null),
  });
  await assert.rejects(NetworkKeeper.start(start(`${place.root}/none`)), { code: "E-IO-003" });
  const mute = place.file("mute", "#!/bin/sh\nexit 0\n", 0o755);
  await assert.rejects(NetworkKeeper.start(start(mute)), { code: "E-CAP-005", message: /without a word/ });
  const hangs = place.file("hangs", "#!/bin/sh\nexec sleep 1000\n", 0o755);
  await assert.rejects(NetworkKeeper.start(start(hangs)), { code: "E-CAP-005" });
  const ports = Array.from({ length: 17 }, (_, i) => i + 1);
  await assert.rejects(NetworkKeeper.start({ ...start(await checkoutHelper()), ports }), {
    code: "E-CAP-005",
    message: /spec: too many ports/,
  });
  assert.deepEqual([...Deno.readDirSync(place.control)], []);
});

Deno.test("the keeper holds under sanitizers", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const helper = `${directory}/mur-confine`;
    if (!await buildSanitized(helper)) {
      return console.log("this machine's compiler has no sanitizers: nothing was tested");
    }
    await using network = await Network.open({}, helper);
    assert.equal(await network.run("dial", "1.2.3.4", "80", "3000000"), "received 3000000");
    assert.match(await network.run("dial", "1.2.3.4", "443", "0"), /^(received 0|recv ECONNRESET)$/);
    assert.equal(await network.run("hold", "1.2.3.4", "80", "150"), "held 150");
    assert.equal(await network.run("ask", "9.9.9.9", "q"), "re:q from 9.9.9.9");
    const command = network.start(["dial", "1.2.3.4", "80", "100000000"]);
    await command.started;
    command.kill();
    await command.end;
    assert.equal(await network.run("dial", "1.2.3.4", "80", "1"), "received 1");
    assert.ok(network.keeper.alive);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
