/**
 * `POST /spawn` and `GET /status` of the real daemon over 64 connections, each beside a bare `Deno.serve` that parses the
 * same body and returns the same JSON; and the memory of 1,000 live sessions. Where the machine has cores to choose from,
 * both servers run on one of them alone and the client on another. Rounds are short and in turn, so that what else the
 * machine does hits both; a ratio is the median of theirs. Needs a C compiler.
 *
 * @module
 */
import { newId } from "../base/ids.ts";
import { RoostDaemon, RoostHome } from "../roost/testing/daemon.ts";
import { processorMs } from "../roost/testing/listening_process.ts";
import { residentBytes } from "../roost/testing/storm.ts";
import { startBarePeer } from "./bare_peer.ts";
import { compiledClient, keepaliveLoad } from "./compiled_client.ts";
import type { Load } from "./raw_http.ts";
import { type BenchResult, median } from "./result.ts";

const CONNECTIONS = 64;
const ROUND_MS = 500;
const ROUNDS = 15;
const SESSIONS = 1_000;
const WARM_UP_MS = 2_000;

const BARE = `const headers = [["content-type", "application/json"]];
const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
  if (request.method === "POST") await request.json();
  return new Response(request.method === "POST" ? Deno.args[0] : Deno.args[1], { headers });
});
console.log(server.addr.port);`;

/** Command lines in front of a program that keep it on one core. */
const onCore = (core: number) => navigator.hardwareConcurrency > 1 ? ["taskset", "-c", String(core)] : [];

function rawRequest(port: number, start: string, headers: readonly string[], body: string): Uint8Array {
  const lines = [`${start} HTTP/1.1`, `host: 127.0.0.1:${port}`, ...headers];
  if (body !== "") lines.push("content-type: application/json", `content-length: ${body.length}`);
  return new TextEncoder().encode(`${lines.join("\r\n")}\r\n\r\n${body}`);
}

const quantile = ({ latencies }: Load, share: number) => latencies[Math.floor(latencies.length * share)]!;

interface Measured extends Load {
  /** Processor microseconds a request took of its server. */
  readonly processorUs: number;
}

async function measured(client: readonly string[], pid: number, port: number, request: Uint8Array): Promise<Measured> {
  const before = processorMs(pid);
  const result = await keepaliveLoad(client, port, request, CONNECTIONS, ROUND_MS);
  return { ...result, processorUs: (processorMs(pid) - before) * 1_000 / result.latencies.length };
}

export async function run(): Promise<BenchResult> {
  await using home = new RoostHome();
  const client = [...onCore(1), await compiledClient("keepalive_load", home.path)];
  await home.install("parent", "capabilities: { spawn: { allow: [local/child] } }\n");
  await home.install("child");
  await Deno.mkdir(home.running, { recursive: true, mode: 0o700 });
  const unbounded = ["--max-live-capsules", "4294967295", "--max-concurrent", "4294967295"];
  await using daemon = await RoostDaemon.start(["--spawn-allow", "local/parent", ...unbounded], {
    home: home.path,
    under: onCore(0),
    // Nobody redeems what is granted here. In use the machine ceiling keeps reservations few; here their expiry does.
    bounds: { spawnApproval: 20 },
  });
  const { id, credential } = await daemon.root("parent");
  const granted = await daemon.spawn(credential, "child");
  const polled = await daemon.status(id);
  await using bare = await startBarePeer(
    BARE,
    [JSON.stringify(granted.body), JSON.stringify(polled.body)],
    onCore(0),
  );

  const spawnBody = JSON.stringify({ name: "local/child", version: "1.0.0" });
  const spawn = (port: number) =>
    rawRequest(port, "POST /spawn", [`x-murmur-spawn-credential: ${credential}`], spawnBody);
  const status = (port: number) => rawRequest(port, `GET /status/${id}`, [], "");
  const pairs: Record<"spawn" | "status", { readonly roost: Measured; readonly peer: Measured }[]> = {
    spawn: [],
    status: [],
  };
  // Until the code is compiled as it stays.
  for (const port of [daemon.port, bare.port]) {
    for (const request of [spawn, status]) {
      await keepaliveLoad(client, port, request(port), CONNECTIONS, WARM_UP_MS);
    }
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, request] of [["spawn", spawn], ["status", status]] as const) {
      const roost = await measured(client, daemon.child.pid, daemon.port, request(daemon.port));
      const peer = await measured(client, bare.pid, bare.port, request(bare.port));
      pairs[name].push({ roost, peer });
    }
  }
  const of = (name: "spawn" | "status", figure: (pair: { roost: Measured; peer: Measured }) => number) =>
    median(pairs[name].map(figure));
  const figures = (["spawn", "status"] as const).flatMap((name) => [
    { what: `/${name} a second`, value: of(name, ({ roost }) => roost.perSecond), unit: "/s" },
    { what: "bare Deno.serve, the same JSON", value: of(name, ({ peer }) => peer.perSecond), unit: "/s" },
    {
      what: `/${name} over bare Deno.serve`,
      value: of(name, ({ roost, peer }) => roost.perSecond / peer.perSecond),
      unit: "x",
      atLeast: name === "spawn" ? 0.5 : 0.7,
    },
    {
      what: "the same by processor time",
      value: of(name, ({ roost, peer }) => peer.processorUs / roost.processorUs),
      unit: "x",
      atLeast: name === "spawn" ? 0.5 : 0.7,
    },
    { what: "latency, median", value: of(name, ({ roost }) => quantile(roost, 0.5)), unit: "ms" },
    {
      what: "latency, 99th percentile over the median",
      value: of(name, ({ roost }) => quantile(roost, 0.99) / quantile(roost, 0.5)),
      unit: "x",
      atMost: 5,
    },
    {
      what: "the same of bare Deno.serve",
      value: of(name, ({ peer }) => quantile(peer, 0.99) / quantile(peer, 0.5)),
      unit: "x",
    },
  ]);
  return { name: `roost requests (${CONNECTIONS} connections)`, figures: [...figures, await memoryFigure()] };
}

/** Resident memory of a daemon with sessions over that of one at rest. */
async function memoryFigure() {
  await using home = new RoostHome();
  await home.install("parent", "capabilities: { spawn: { allow: [local/child] } }\n");
  await using daemon = await RoostDaemon.start(["--spawn-allow", "local/parent"], { home: home.path });
  // At rest: nobody has asked anything, and what a request needs is loaded.
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  const atRest = residentBytes(daemon.child.pid);
  for (let count = 0; count < SESSIONS; count++) {
    const id = newId("ses");
    // As a session does before it registers.
    home.record(id, Deno.pid);
    await daemon.register(id, "parent");
  }
  const live = residentBytes(daemon.child.pid);
  console.error(
    `  resident at rest ${(atRest / 1e6).toFixed(1)} MB, with ${SESSIONS} sessions ${(live / 1e6).toFixed(1)} MB`,
  );
  return {
    what: `resident memory, ${SESSIONS} live sessions over at rest`,
    value: live / atRest,
    unit: "x",
    atMost: 1.3,
  };
}
