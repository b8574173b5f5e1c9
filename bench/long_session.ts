/**
 * A session of 200 turns with one shell command each: time outside the commands, and whether memory stays flat.
 *
 * @module
 */
import { benchProject } from "./bundled_mur.ts";
import { type BenchResult, median } from "./result.ts";

const TURNS = 200;
const PAGE_BYTES = 4_096;

interface TraceLine {
  readonly event_type: string;
  readonly timestamp: number;
  readonly turn?: number;
  readonly duration_ms?: number;
}

export async function run(): Promise<BenchResult> {
  const turns = [
    ...Array.from({ length: TURNS - 1 }, (_, turn) => ({
      tool_calls: [{ name: "sh", input: { command: `echo ${turn}` } }],
    })),
    { text: "done" },
  ];
  await using project = await benchProject(
    `name: bench
version: "0.1.0"
artifacts:
  - { name: murmur-driver-scripted, version: "0.1.0", runtime: driver, gateway: { endpoint: "http://127.0.0.1:1", keyless: true } }
capabilities: { shell: { allow: [sh] } }
inference:
  model: scripted
  max_turns: ${TURNS}
  driver: { artifact: murmur-driver-scripted, config: { turns: ${JSON.stringify(turns)} } }
`,
    ["murmur-driver-scripted"],
  );
  const child = project.command("run", "--task", "go").spawn();
  const resident: number[] = [];
  const sampler = setInterval(() => {
    try {
      const [, pages] = Deno.readTextFileSync(`/proc/${child.pid}/statm`).split(" ");
      resident.push(Number(pages) * PAGE_BYTES / 1024 / 1024);
    } catch {
      // It has ended.
    }
  }, 100);
  const { success, stderr } = await child.output();
  clearInterval(sampler);
  if (!success) throw new Error(`the session failed: ${new TextDecoder().decode(stderr)}`);
  const lines = await traceOf(project.home);
  const inference = lines.filter(({ event_type }) => event_type === "inference");
  const commands = lines.filter(({ event_type }) => event_type === "shell");
  const gaps = inference.slice(1).map(({ timestamp }, turn) =>
    timestamp - inference[turn]!.timestamp - (commands[turn]?.duration_ms ?? 0)
  );
  const third = Math.max(1, Math.floor(resident.length / 3));
  const early = median(resident.slice(third, 2 * third));
  const late = median(resident.slice(2 * third));
  return {
    name: `long session (${TURNS} turns, one shell command each)`,
    figures: [
      { what: "time outside the command, a turn, median", value: median(gaps), unit: "ms", atMost: 25 },
      { what: "the same, last 50 turns", value: median(gaps.slice(-50)), unit: "ms", atMost: 25 },
      { what: "resident memory, second third", value: early, unit: "MB" },
      { what: "resident memory, last third", value: late, unit: "MB" },
      { what: "growth from the second to the last third", value: late / early, unit: "x", atMost: 1.1 },
    ],
  };
}

async function traceOf(home: string): Promise<TraceLine[]> {
  const find = async (directory: string): Promise<string | null> => {
    for await (const { name, isDirectory } of Deno.readDir(directory)) {
      if (name === "trace.jsonl") return `${directory}/${name}`;
      const found = isDirectory ? await find(`${directory}/${name}`) : null;
      if (found !== null) return found;
    }
    return null;
  };
  const path = await find(`${home}/.murmur/records`);
  if (path === null) throw new Error("the session left no trace");
  return (await Deno.readTextFile(path)).trim().split("\n").map((line) => JSON.parse(line));
}
