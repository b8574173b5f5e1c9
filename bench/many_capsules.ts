/**
 * Sixteen capsules launched at once, each waiting for its first model answer: whether all get there, and what each takes
 * of memory, its component host included, with the driver's call in flight and after the host was let go.
 *
 * Memory is the proportional set size (`Pss` of `smaps_rollup`): pages that processes share are counted once in all.
 * Reading it of a process that closed itself to others takes root.
 *
 * @module
 */
import { DEFAULT_TIME_BOUNDS } from "../base/time_bounds.ts";
import { benchProject } from "./bundled_mur.ts";
import { helloCompletion } from "./model_answer.ts";
import { type BenchResult, median } from "./result.ts";

const CAPSULES = 16;
const START_BOUND_MS = 60_000;

export async function run(): Promise<BenchResult> {
  const waiting: (() => void)[] = [];
  const provider = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async () => {
    await new Promise<void>((resolve) => waiting.push(resolve));
    return helloCompletion();
  });
  await using project = await benchProject(
    `name: bench
version: "0.1.0"
artifacts:
  - name: murmur-driver-openai
    version: "0.1.0"
    runtime: driver
    gateway: { endpoint: "http://127.0.0.1:${provider.addr.port}", keyless: true }
lifecycle: { task_acceptance: queue, after_task: sleep }
inference:
  model: m
  driver: { artifact: murmur-driver-openai, config: { stream: false } }
`,
    ["murmur-driver-openai"],
  );
  // The first launch writes caches and the lock.
  const first = project.command("run", "--json", "--lifecycle-after-task", "exit", "--task", "warm up").spawn();
  await until(() => waiting.length === 1);
  waiting.pop()!();
  for (const stream of [first.stdout, first.stderr]) stream.cancel();
  await first.status;

  const started = performance.now();
  const children = Array.from({ length: CAPSULES }, () => project.command("run", "--json", "--task", "hello").spawn());
  for (const child of children) for (const stream of [child.stdout, child.stderr]) stream.cancel();
  let failed = 0;
  for (const child of children) child.status.then(({ success }) => failed += success ? 0 : 1);
  await until(() => waiting.length + failed >= CAPSULES);
  const allAsked = performance.now() - started;
  // What compiles in the background settles.
  await pause(2_000);
  const asking = children.map(({ pid }) => memoryOfTree(pid));
  const lost = CAPSULES - waiting.length;
  for (const answer of waiting) answer();
  await pause(DEFAULT_TIME_BOUNDS.componentIdle + 5_000);
  const idle = children.map(({ pid }) => memoryOfTree(pid));
  for (const child of children) child.kill("SIGTERM");
  await Promise.all(children.map(({ status }) => status));
  await provider.shutdown();
  return {
    name: `${CAPSULES} capsules launched at once`,
    figures: [
      { what: "launches that failed", value: lost, unit: "", atMost: 0 },
      { what: "until every one had asked its model", value: allAsked, unit: "ms" },
      { what: "memory of a capsule and its host, call in flight", value: median(asking), unit: "MB", atMost: 90 },
      { what: "memory of a capsule whose host was let go", value: median(idle), unit: "MB", atMost: 35 },
    ],
  };
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

async function until(reached: () => boolean): Promise<void> {
  const bound = performance.now() + START_BOUND_MS;
  while (!reached()) {
    if (performance.now() > bound) throw new Error("the capsules did not get so far in a minute");
    await pause(20);
  }
}

/** Proportional set size of a process and all below it, in megabytes. */
function memoryOfTree(root: number): number {
  const children = new Map<number, number[]>();
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = Deno.readTextFileSync(`/proc/${name}/stat`);
      const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
      children.set(parent, [...children.get(parent) ?? [], Number(name)]);
    } catch {
      // It has ended.
    }
  }
  let kilobytes = 0;
  const below = [root];
  for (let pid = below.pop(); pid !== undefined; pid = below.pop()) {
    below.push(...children.get(pid) ?? []);
    kilobytes += Number(/^Pss: +(\d+)/m.exec(Deno.readTextFileSync(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0);
  }
  return kilobytes / 1024;
}
