import assert from "node:assert/strict";
import { parseNetworkRule } from "../artifact/network_rules.ts";
import { createNameResolver } from "../base/name_resolver.ts";
import { DEFAULT_TIME_BOUNDS } from "../base/time_bounds.ts";
import { until } from "../tests/support/process_tree.ts";
import { checkoutHelper } from "./confine_helper.ts";
import type { CommandRecord } from "./confine_records.ts";
import { SessionNetwork } from "./session_network.ts";
import { ConfinedPlace } from "./testing/confined_place.ts";
import { confineSource } from "./testing/sanitized_helper.ts";

/** Answers every connection with what it sent. */
function echoService(): Deno.TcpListener {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  void (async () => {
    for await (const connection of listener) void connection.readable.pipeTo(connection.writable).catch(() => {});
  })();
  return listener;
}

/** Runs something with a session's network that may reach one service of this machine. */
async function withNetwork(
  host: string,
  work: (network: SessionNetwork, run: (...args: string[]) => Promise<string>, port: number) => Promise<void>,
): Promise<void> {
  const helper = await checkoutHelper();
  using service = echoService();
  await using place = new ConfinedPlace(helper);
  const client = `${place.root}/client`;
  const { success, stderr } = await new Deno.Command("cc", {
    args: ["-static", "-O1", "-o", client, confineSource("network_client.c")],
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  const { port } = service.addr;
  const mute = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const network = await SessionNetwork.open({
    helper,
    controlDirectory: place.control,
    rules: [`${host}:${port}`, "mute.example"].map(parseNetworkRule),
    resolver: createNameResolver({
      hosts: "",
      resolvConf: "nameserver 127.0.0.1",
      // Answers nothing over UDP, where nobody listens.
      port: mute.addr.port,
      bounds: { resolveName: 200, nameserverReply: 80 },
    }),
    bounds: DEFAULT_TIME_BOUNDS,
  });
  try {
    await work(network, async (...args) => {
      const rule: CommandRecord = { op: "rule", rights: "RX", presence: "req", path: client };
      const records = [rule, await network.join()];
      const end = await place.run(client, ["client", ...args], { records });
      assert.equal(end.failure, null);
      return end.stdout.trim();
    }, port);
  } finally {
    await network[Symbol.asyncDispose]();
    mute.close();
  }
}

Deno.test("a command reaches what the rules name, at the addresses of launch and no other", async () => {
  await withNetwork("localhost", async (network, run, port) => {
    assert.equal(await run("dial", "127.0.0.1", String(port), "100000"), "received 100000");
    assert.match(await run("dial", "127.0.0.3", String(port), "1"), /^(received 0|recv ECONNRESET)$/);
    assert.equal(await run("dial", "127.0.0.1", "1", "1"), "connect ECONNREFUSED");
    assert.match(network.unanswered.join(), /^mute\.example: no name server answered/);
  });
});

Deno.test("a keeper that was killed is replaced once, by whoever needs it first", async () => {
  await withNetwork("127.0.0.1", async (network, run, port) => {
    const before = await network.join();
    assert.ok(before.op === "join");
    assert.deepEqual(await network.join(), before);
    Deno.kill(before.pid, "SIGKILL");
    await until("its end is known", async () => {
      const now = await network.join();
      return now.op === "join" && now.pid !== before.pid;
    });
    const [one, two] = await Promise.all([network.join(), network.join()]);
    assert.deepEqual(one, two);
    assert.equal(await run("dial", "127.0.0.1", String(port), "1000"), "received 1000");
  });
});

Deno.test("with the network's end its keeper is gone", async () => {
  let pid = 0;
  await withNetwork("127.0.0.1", async (network) => {
    const join = await network.join();
    pid = join.op === "join" ? join.pid : 0;
    assert.ok(Deno.statSync(`/proc/${pid}`).isDirectory);
  });
  assert.throws(() => Deno.statSync(`/proc/${pid}`), Deno.errors.NotFound);
});
