/**
 * How long `mur` takes until it is of use, against an empty program started by the same `deno`, in turn in one run.
 *
 * @module
 */
import { benchProject } from "./bundled_mur.ts";
import { helloCompletion } from "./model_answer.ts";
import { type BenchResult, median } from "./result.ts";

const ROUNDS = 15;

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** Time from the start of a process to the first line of its output. */
async function toFirstLine(command: Deno.Command): Promise<number> {
  const start = performance.now();
  const child = command.spawn();
  const reader = child.stdout.getReader();
  await reader.read();
  const elapsed = performance.now() - start;
  (async () => {
    while (!(await reader.read()).done);
  })();
  child.stderr.pipeTo(new WritableStream()).catch(() => {});
  await child.status;
  return elapsed;
}

export async function run(): Promise<BenchResult> {
  let asked = 0;
  // A provider that says when the first request arrives, and answers at once.
  const provider = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, () => {
    asked = performance.now();
    return helloCompletion();
  });
  await using scripted = await benchProject(
    `name: bench
version: "0.1.0"
artifacts:
  - { name: murmur-driver-scripted, version: "0.1.0", runtime: driver, gateway: { endpoint: "http://127.0.0.1:1", keyless: true } }
inference:
  model: scripted
  driver: { artifact: murmur-driver-scripted, config: { turns: [{ text: hello }] } }
`,
    ["murmur-driver-scripted"],
  );
  await using asking = await benchProject(
    `name: bench
version: "0.1.0"
artifacts:
  - name: murmur-driver-openai
    version: "0.1.0"
    runtime: driver
    gateway: { endpoint: "http://127.0.0.1:${provider.addr.port}", keyless: true }
inference:
  model: m
  driver: { artifact: murmur-driver-openai, config: { stream: false } }
`,
    ["murmur-driver-openai"],
  );
  await Deno.writeTextFile(`${scripted.project}/empty.js`, "");
  const empty = new Deno.Command(Deno.execPath(), { args: ["run", `${scripted.project}/empty.js`] });
  // The first of each also writes caches.
  await scripted.run("run", "--task", "warm up");
  await asking.run("run", "--task", "warm up");
  const times = { empty: [] as number[], version: [] as number[], ready: [] as number[], asked: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    times.empty.push(await timed(() => empty.output()));
    times.version.push(await timed(() => scripted.command("--version").output()));
    times.ready.push(await toFirstLine(scripted.command("run", "--json", "--task", "hello")));
    const start = performance.now();
    await asking.run("run", "--task", "hello");
    times.asked.push(asked - start);
  }
  await provider.shutdown();
  const base = median(times.empty);
  const ratio = (samples: readonly number[]) => median(samples.map((sample, round) => sample / times.empty[round]!));
  return {
    name: "start-up (bundled program; peer: an empty deno run)",
    figures: [
      { what: "empty deno run", value: base, unit: "ms" },
      { what: "mur --version", value: median(times.version), unit: "ms" },
      { what: "mur --version, ratio", value: ratio(times.version), unit: "x", atMost: 1.3 },
      { what: "mur run to its readiness line", value: median(times.ready), unit: "ms" },
      { what: "mur run to its readiness line, ratio", value: ratio(times.ready), unit: "x", atMost: 4 },
      { what: "mur run to the first model request", value: median(times.asked), unit: "ms" },
      { what: "mur run to the first model request, ratio", value: ratio(times.asked), unit: "x", atMost: 6 },
    ],
  };
}
