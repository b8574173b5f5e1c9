/**
 * How long `mur-roost` takes from its start to its first answered `/health` with 1,000 running records to count, each of a
 * process of its own, against an empty program started by the same `deno`, in turn in one run: from a checkout, and bundled
 * as it is installed.
 *
 * @module
 */
import { newId } from "../base/ids.ts";
import { roostCommand, RoostHome } from "../roost/testing/daemon.ts";
import { PROGRAMS } from "../scripts/program_files.ts";
import { type BenchResult, median } from "./result.ts";

const ROUNDS = 15;
const RECORDS = 1_000;

const roostProgram = PROGRAMS.find(({ name }) => name === "mur-roost")!;
/** The daemon is its bundle alone. */
const NOTHING_BESIDE = { helper: null, native: { esbuild: "", componentizer: "" } };

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
    await using bareHome = new RoostHome();
    const { entry, flags } = await roostProgram.prepare(`${home.path}/program`, NOTHING_BESIDE);
    const bundled = [Deno.execPath(), "run", "--quiet", "--no-config", ...flags, `${home.path}/program/${entry}`];
    const forms = [
      { what: "checkout", home, program: undefined },
      { what: "checkout", home: bareHome, program: undefined },
      { what: "bundled", home, program: bundled },
      { what: "bundled", home: bareHome, program: bundled },
    ];
    const base: number[] = [];
    const times: number[][] = forms.map(() => []);
    const processor = { base: 0, forms: forms.map(() => 0) };
    // The first ones also write caches; what Deno compiled of a program is kept after its second start.
    for (let round = -3; round < ROUNDS; round++) {
      const spent = endedProcessorMs();
      const start = performance.now();
      await new Deno.Command(Deno.execPath(), { args: ["run", empty] }).output();
      if (round >= 0) {
        base.push(performance.now() - start);
        processor.base += endedProcessorMs() - spent;
      }
      for (const [form, { home, program }] of forms.entries()) {
        const { took, spent } = await toFirstAnswer(home, program);
        if (round < 0) continue;
        times[form]!.push(took);
        processor.forms[form]! += spent;
      }
    }
    return {
      name: "roost start, to the first answered /health",
      figures: [
        { what: "empty program", value: median(base), unit: "ms" },
        ...forms.flatMap((form, index) => {
          const count = form.home === home ? RECORDS : 0;
          const what = `${form.what}, ${count} running records`;
          const ratios = times[index]!.map((took, round) => took / base[round]!);
          return [
            { what, value: median(times[index]!), unit: "ms" },
            {
              what: `${what}, over the empty program`,
              value: median(ratios),
              unit: "x",
              // The installed form is what is held to it: a checkout's modules are loaded one by one.
              ...(count > 0 && form.program !== undefined ? { atMost: 2.5 } : {}),
            },
            { what: "the same by processor time", value: processor.forms[index]! / processor.base, unit: "x" },
          ];
        }),
      ],
    };
  } finally {
    for (const pid of pids) Deno.kill(pid, "SIGKILL");
    shell.kill("SIGKILL");
    await shell.status;
  }
}

/** Processor time of all children that have ended, in milliseconds; clock ticks are 10 ms on Linux. */
function endedProcessorMs(): number {
  const fields = Deno.readTextFileSync("/proc/self/stat").replace(/^.*\) /, "").split(" ");
  return (Number(fields[13]) + Number(fields[14])) * 10;
}

/** Processor time of a running program so far, in milliseconds, all of its threads. */
function processorMs(pid: number): number {
  const threads = [...Deno.readDirSync(`/proc/${pid}/task`)].map(({ name }) => name);
  return threads.reduce((sum, thread) => {
    return sum + Number(Deno.readTextFileSync(`/proc/${pid}/task/${thread}/schedstat`).split(" ")[0]) / 1e6;
  }, 0);
}

const HEALTH = new TextEncoder().encode("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");

async function toFirstAnswer(home: RoostHome, program?: readonly string[]) {
  const port = freePort();
  const start = performance.now();
  const child = roostCommand(["--port", String(port)], { home: home.path, program }).spawn();
  // From its own word that it listens: whoever knocks before takes processor time from it.
  const lines = child.stderr.getReader();
  const decoder = new TextDecoder();
  let said = "";
  while (!said.includes("listening on")) {
    const { done, value } = await lines.read();
    if (done) throw new Error(`mur-roost did not start: ${said}`);
    said += decoder.decode(value, { stream: true });
  }
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await connection.write(HEALTH);
  if (await connection.read(new Uint8Array(256)) === null) throw new Error("mur-roost did not answer");
  const took = performance.now() - start;
  // Behind its answer it goes on: what decides is loaded.
  const spent = processorMs(child.pid);
  child.kill("SIGKILL");
  await Promise.all([child.status, child.stdout.cancel(), lines.cancel()]);
  return { took, spent };
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return (listener.addr as Deno.NetAddr).port;
}
