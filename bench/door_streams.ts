/**
 * 200 streams of one task at a real session's door, one of which is never read: how late events reach the others, and what
 * the stalled one costs in memory.
 *
 * @module
 */
import { startBenchSession, taskMessage } from "./door_session.ts";
import { rawPost } from "./raw_http.ts";
import { type BenchResult, median } from "./result.ts";

const STREAMS = 200;
const CHUNKS = 200;
const CHUNK_DELAY_MS = 25;

/** A task that writes more than the socket of a reader takes that does not read, and more than its queue holds. */
const FLOOD = `flood ${"x".repeat(20_000)}`;
const FLOOD_CHUNKS = 500;

const TIMESTAMP = /"timestamp":"([^"]+)"/g;

export async function run(): Promise<BenchResult> {
  await using session = await startBenchSession({
    scripts: [
      { when: "flood", turns: [{ chunks: Array.from({ length: FLOOD_CHUNKS }, () => "{{task}}"), text: "done" }] },
      {
        turns: [{
          chunks: Array.from({ length: CHUNKS }, () => "a word "),
          chunk_delay_ms: CHUNK_DELAY_MS,
          text: "done",
        }],
      },
    ],
  });
  const open = async (method: string, params: object = {}) => {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: session.port });
    await connection.write(rawPost(session.port, JSON.stringify({ jsonrpc: "2.0", id: 1, method, params })));
    return connection;
  };
  const stalled = await open("murmur.WatchStream");
  await session.call("SendMessage", taskMessage(FLOOD, {}));
  const { task } = await session.call("SendMessage", taskMessage("go"));
  const before = session.residentMb();
  const delays: number[] = [];
  let finals = 0;
  let lagged = 0;
  const follow = async () => {
    using connection = await open("SubscribeToTask", { id: task.id });
    const buffer = new Uint8Array(65_536);
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const count = await connection.read(buffer);
      if (count === null) return;
      const now = Date.now();
      const text = rest + decoder.decode(buffer.subarray(0, count), { stream: true });
      const end = text.lastIndexOf("\n\n");
      rest = end < 0 ? text : text.slice(end);
      for (const [, at] of (end < 0 ? "" : text.slice(0, end)).matchAll(TIMESTAMP)) delays.push(now - Date.parse(at!));
      if (text.includes("event: lagged")) lagged++;
      if (text.includes("TASK_STATE_COMPLETED")) {
        finals++;
        return;
      }
    }
  };
  await Promise.all(Array.from({ length: STREAMS - 1 }, follow));
  const grown = session.residentMb() - before;
  stalled.close();
  if (finals !== STREAMS - 1) throw new Error(`${finals} of ${STREAMS - 1} streams saw the end of the task`);
  delays.sort((a, b) => a - b);
  return {
    name: `door streams (${STREAMS} streams, one never read, ${1_000 / CHUNK_DELAY_MS} events a second each)`,
    figures: [
      { what: "events that reached the readers", value: delays.length, unit: "" },
      { what: "from writing to reading, median", value: median(delays), unit: "ms" },
      { what: "the latest of all", value: delays.at(-1)!, unit: "ms", atMost: 100 },
      { what: "readers that lost an event", value: lagged, unit: "", atMost: 0 },
      { what: "resident memory that came with the streams", value: grown, unit: "MB" },
    ],
  };
}
