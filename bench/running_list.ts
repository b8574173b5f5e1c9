/**
 * How long `mur ps` takes with 200 dead records and with 200 live doors, against an empty program started by the same
 * `deno`, in turn in one run. The doors are served by this process.
 *
 * @module
 */
import { newId } from "../base/ids.ts";
import { murmurHomeAt } from "../base/murmur_home.ts";
import { ownStartToken } from "../base/process_identity.ts";
import { removeRunningRecord, type RunningRecord } from "../base/running_record.ts";
import { writeRunningRecord } from "../base/write_running_record.ts";
import { CARD_EXTENSION } from "../runtime/door/card_extension.ts";
import { benchProject } from "./bundled_mur.ts";
import { type BenchResult, median } from "./result.ts";

const ROUNDS = 15;
const RECORDS = 200;

function record(id: string, more: Partial<RunningRecord>): RunningRecord {
  return {
    session_id: id,
    url: null,
    pid: Deno.pid,
    process_start: ownStartToken(),
    capsule_name: "bench",
    capsule_version: "0.1.0",
    workdir: "/tmp",
    records_dir: "/tmp",
    outlives_launcher: true,
    started_at: new Date().toISOString(),
    ...more,
  };
}

/** A pid that nobody holds any more. */
async function gonePid(): Promise<number> {
  const child = new Deno.Command("true").spawn();
  await child.status;
  return child.pid;
}

/** A door that answers with the card of a session. */
function serveDoor(sessionId: string): Deno.HttpServer<Deno.NetAddr> {
  let card = "";
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () =>
    new Response(card, {
      headers: { "content-type": "application/json", "connection": "close" },
    }));
  // What a reader of cards looks at, and as long as a real one.
  const extension = (uri: string, params: unknown) => ({ uri, description: "x".repeat(200), required: false, params });
  card = JSON.stringify({
    name: "bench",
    description: "Murmur capsule bench 0.1.0",
    version: "0.1.0",
    supportedInterfaces: [{
      url: `http://localhost:${server.addr.port}`,
      protocolBinding: "JSONRPC",
      protocolVersion: "1.0",
    }],
    capabilities: {
      streaming: true,
      pushNotifications: false,
      extendedAgentCard: false,
      extensions: [
        extension(CARD_EXTENSION.door, { methods: ["x".repeat(200)], peerTasks: false }),
        extension(CARD_EXTENSION.capsule, { sessionId, tools: ["bash"], shell: true, network: false, planes: [] }),
        extension(CARD_EXTENSION.stream, { frames: ["x".repeat(200)] }),
      ],
    },
    skills: [],
  });
  return server;
}

export async function run(): Promise<BenchResult> {
  await using bench = await benchProject("name: bench\nversion: '0.1.0'\n", []);
  const running = murmurHomeAt(bench.home).running;
  await Deno.writeTextFile(`${bench.project}/empty.js`, "");
  const empty = new Deno.Command(Deno.execPath(), { args: ["run", `${bench.project}/empty.js`] });
  const timed = async (command: Deno.Command) => {
    const start = performance.now();
    const { stdout } = await command.output();
    return { ms: performance.now() - start, text: new TextDecoder().decode(stdout) };
  };
  const ps = bench.command("ps");
  const times = { empty: [] as number[], dead: [] as number[], live: [] as number[] };

  const pid = await gonePid();
  for (let round = -1; round < ROUNDS; round++) {
    for (let count = 0; count < RECORDS; count++) writeRunningRecord(running, record(newId("ses"), { pid }));
    const peer = await timed(empty);
    const listed = await timed(ps);
    if (listed.text !== "no running capsules\n") throw new Error(`mur ps listed dead sessions: ${listed.text}`);
    // The first of each also writes caches.
    if (round < 0) continue;
    times.empty.push(peer.ms);
    times.dead.push(listed.ms / peer.ms);
  }

  const sessions = Array.from({ length: RECORDS }, () => newId("ses"));
  const doors = sessions.map(serveDoor);
  for (const [index, id] of sessions.entries()) {
    writeRunningRecord(running, record(id, { url: `localhost:${doors[index]!.addr.port}` }));
  }
  for (let round = -1; round < ROUNDS; round++) {
    const peer = await timed(empty);
    const listed = await timed(ps);
    const answered = listed.text.split("\n").filter((line) => line.includes(" running ")).length;
    if (answered !== RECORDS) throw new Error(`mur ps found ${answered} of ${RECORDS} doors`);
    if (round < 0) continue;
    times.empty.push(peer.ms);
    times.live.push(listed.ms / peer.ms);
  }
  for (const id of sessions) removeRunningRecord(running, id);
  await Promise.all(doors.map((door) => door.shutdown()));
  return {
    name: "running-list (bundled program; peer: an empty deno run)",
    figures: [
      { what: "empty deno run", value: median(times.empty), unit: "ms" },
      { what: `mur ps, ${RECORDS} dead records, ratio`, value: median(times.dead), unit: "x", atMost: 2 },
      { what: `mur ps, ${RECORDS} live doors, ratio`, value: median(times.live), unit: "x", atMost: 4 },
    ],
  };
}
