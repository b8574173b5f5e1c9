/**
 * `GetTask` at a real session's door over 64 connections, beside a bare `Deno.serve` that returns the same JSON.
 *
 * @module
 */
import { startBenchSession, taskMessage } from "./door_session.ts";
import { type Load, load, rawPost } from "./raw_http.ts";
import { startBarePeer } from "./bare_peer.ts";
import { type BenchResult, median } from "./result.ts";

const CONNECTIONS = 64;
const ROUND_MS = 2_000;
const ROUNDS = 5;

const BARE = `const body = Deno.args[0];
const headers = [["content-type", "application/json"], ["connection", "close"]];
const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => new Response(body, { headers }));
console.log(server.addr.port);`;

const quantile = ({ latencies }: Load, share: number) => latencies[Math.floor(latencies.length * share)]!;

export async function run(): Promise<BenchResult> {
  await using session = await startBenchSession({ turns: [{ text: "done" }] });
  const { task } = await session.call("SendMessage", taskMessage("go", {}));
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "GetTask", params: { id: task.id } });
  const answer = JSON.stringify({ jsonrpc: "2.0", id: 1, result: await session.call("GetTask", { id: task.id }) });
  await using bare = await startBarePeer(BARE, [answer]);
  const rounds: { readonly door: Load; readonly peer: Load }[] = [];
  // One round each to warm up, then turn by turn, so that what else the machine does hits both.
  for (let round = 0; round <= ROUNDS; round++) {
    const door = await load(session.port, rawPost(session.port, body), CONNECTIONS, ROUND_MS);
    const peer = await load(bare.port, rawPost(bare.port, body), CONNECTIONS, ROUND_MS);
    if (round > 0) rounds.push({ door, peer });
  }
  const of = (figure: (round: typeof rounds[number]) => number) => median(rounds.map(figure));
  return {
    name: `door calls (GetTask, ${CONNECTIONS} connections)`,
    figures: [
      { what: "GetTask a second", value: of(({ door }) => door.perSecond), unit: "/s" },
      { what: "bare Deno.serve, the same JSON", value: of(({ peer }) => peer.perSecond), unit: "/s" },
      {
        what: "bare Deno.serve as fast as the door",
        value: of(({ door, peer }) => peer.perSecond / door.perSecond),
        unit: "x",
        atMost: 2,
      },
      { what: "latency, median", value: of(({ door }) => quantile(door, 0.5)), unit: "ms" },
      {
        what: "latency, 99th percentile over the median",
        value: of(({ door }) => quantile(door, 0.99) / quantile(door, 0.5)),
        unit: "x",
        atMost: 10,
      },
    ],
  };
}
