/**
 * How long `mur-roost` takes from its start to its first answered `/health` with 1,000 running records to count, each of a
 * process of its own, against an empty program started by the same `deno`, in turn in one run.
 *
 * @module
 */
import { newId } from "../base/ids.ts";
import { roostCommand, RoostHome } from "../roost/testing/daemon.ts";
import { type BenchResult, median } from "./result.ts";

const ROUNDS = 15;
const RECORDS = 1_000;

export async function run(): Promise<BenchResult> {
  await using home = new RoostHome();
  const empty = `${home.path}/empty.js`;
  await Deno.writeTextFile(empty, "");
  // One shell with as many children: each record is of a process that runs.
  const shell = new Deno.Command("sh", {
    args: ["-c", `i=0; while [ $i -lt ${RECORDS} ]; do sleep 600 & echo $!; i=$((i + 1)); done; echo done; wait`],
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const pids: number[] = [];
  try {
    let text = "";
    const reader = shell.stdout.pipeThrough(new TextDecoderStream()).getReader();
    while (!text.includes("done")) text += (await reader.read()).value ?? "";
    pids.push(...text.trim().split("\n").slice(0, -1).map(Number));
    for (const pid of pids) home.record(newId("ses"), pid);
    const times = { empty: [] as number[], counted: [] as number[], bare: [] as number[] };
    await using bareHome = new RoostHome();
    // The first also writes caches.
    for (let round = -1; round < ROUNDS; round++) {
      const start = performance.now();
      await new Deno.Command(Deno.execPath(), { args: ["run", empty] }).output();
      const took = performance.now() - start;
      const counted = await toFirstAnswer(home);
      const bare = await toFirstAnswer(bareHome);
      if (round < 0) continue;
      times.empty.push(took);
      times.counted.push(counted);
      times.bare.push(bare);
    }
    const base = median(times.empty);
    return {
      name: "roost start",
      figures: [
        { what: "empty program", value: base, unit: "ms" },
        { what: `first /health, ${RECORDS} running records`, value: median(times.counted), unit: "ms" },
        { what: "over the empty program", value: median(times.counted) / base, unit: "x", atMost: 2.5 },
        { what: "first /health, none", value: median(times.bare), unit: "ms" },
        { what: "over the empty program", value: median(times.bare) / base, unit: "x" },
      ],
    };
  } finally {
    for (const pid of pids) Deno.kill(pid, "SIGKILL");
    shell.kill("SIGKILL");
    await shell.status;
  }
}

const HEALTH = new TextEncoder().encode("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");

async function toFirstAnswer(home: RoostHome): Promise<number> {
  const port = freePort();
  const start = performance.now();
  const child = roostCommand(["--port", String(port)], { home: home.path }).spawn();
  let took = NaN;
  const answered = async () => {
    using connection = await Deno.connect({ hostname: "127.0.0.1", port });
    await connection.write(HEALTH);
    return await connection.read(new Uint8Array(256)) !== null;
  };
  while (!(await answered().catch(() => false))) await new Promise((resolve) => setTimeout(resolve, 1));
  took = performance.now() - start;
  child.kill("SIGKILL");
  await child.output();
  return took;
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return (listener.addr as Deno.NetAddr).port;
}
