/**
 * The copy of a work folder that a delegated child begins with, against `cp -a --reflink=auto` of the same tree on the same
 * file system, in turn in one run: 20,000 files, 500 MB. And what the copy takes in memory.
 *
 * @module
 */
import { takeSnapshot } from "../runtime/delegation/workdir_snapshot.ts";
import { type BenchResult, median } from "./result.ts";

/** Copies stay until the end: a file system may be slow to make files just after it removed as many. */
const ROUNDS = 6;
const DIRECTORIES = 200;
const FILES_EACH = 100;
const TOTAL_BYTES = 500e6;

/** Most of the files are small, one in each directory is a megabyte. */
function makeTree(root: string): void {
  const large = 1 << 20;
  const small = Math.round((TOTAL_BYTES - DIRECTORIES * large) / (DIRECTORIES * (FILES_EACH - 1)));
  const content = crypto.getRandomValues(new Uint8Array(65_536));
  const megabyte = new Uint8Array(large).map((_, at) => content[at % content.length]!);
  for (let directory = 0; directory < DIRECTORIES; directory++) {
    const path = `${root}/d${directory % 20}/e${directory}`;
    Deno.mkdirSync(path, { recursive: true });
    for (let file = 0; file < FILES_EACH; file++) {
      Deno.writeFileSync(`${path}/f${file}`, megabyte.subarray(0, file === 0 ? large : small));
    }
  }
}

/** What was written before is on the disk: writing it out would take from whoever copies next. */
async function timed(work: () => Promise<unknown>): Promise<number> {
  await new Deno.Command("sync").output();
  const start = performance.now();
  await work();
  return performance.now() - start;
}

async function copyAll(from: string, to: string): Promise<void> {
  const { success } = await new Deno.Command("cp", { args: ["-a", "--reflink=auto", from, to] }).output();
  if (!success) throw new Error("cp failed");
}

export async function run(): Promise<BenchResult> {
  const root = await Deno.makeTempDir({ prefix: "mur-bench-" });
  const times = { ours: [] as number[], cp: [] as number[] };
  let growth = 0;
  let longestTurn = 0;
  try {
    makeTree(`${root}/parent`);
    const snapshot = async (to: string) => {
      await Deno.mkdir(to);
      return await takeSnapshot({
        child: "bench",
        source: `${root}/parent`,
        target: to,
        runtimeDirectories: [],
        maxBytes: 10 * 1024 ** 3,
        signal: new AbortController().signal,
      });
    };
    // The first of each meets cold caches of the disk.
    await snapshot(`${root}/ours`);
    await copyAll(`${root}/parent`, `${root}/cp`);
    for (let round = 0; round < ROUNDS; round++) {
      const ours = async () => void times.ours.push(await timed(() => snapshot(`${root}/ours${round}`)));
      const cp = async () => void times.cp.push(await timed(() => copyAll(`${root}/parent`, `${root}/cp${round}`)));
      const before = Deno.memoryUsage().rss;
      let last = performance.now();
      const watch = setInterval(() => {
        growth = Math.max(growth, Deno.memoryUsage().rss - before);
        longestTurn = Math.max(longestTurn, performance.now() - last);
        last = performance.now();
      }, 20);
      for (const each of round % 2 === 0 ? [ours, cp] : [cp, ours]) await each();
      clearInterval(watch);
    }
  } finally {
    await Deno.remove(root, { recursive: true });
  }
  return {
    name: "workdir-snapshot (20,000 files, 500 MB; peer: cp -a --reflink=auto)",
    figures: [
      { what: "cp -a --reflink=auto", value: median(times.cp), unit: "ms" },
      { what: "snapshot", value: median(times.ours), unit: "ms" },
      {
        what: "snapshot, ratio",
        value: median(times.ours.map((ours, round) => ours / times.cp[round]!)),
        unit: "x",
        atMost: 1.3,
      },
      { what: "growth of resident memory meanwhile, at most", value: growth / 1e6, unit: "MB", atMost: 64 },
      { what: "longest the event loop waited meanwhile", value: longestTurn, unit: "ms" },
    ],
  };
}
