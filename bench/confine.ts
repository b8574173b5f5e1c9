/**
 * What the containment of a command costs: `/bin/true` through the helper's `run`, with every frame, against bubblewrap
 * doing the like. Both are started by one small C program, so that neither pays for the other's starter; the way through
 * the runtime's own modules is held against the bare helper.
 *
 * Needs a C compiler, and `bwrap` (Debian package bubblewrap) for the peer's figures; without it they are left out, and
 * that is said.
 *
 * @module
 */
import { encodeFrame, FRAME } from "../sandbox/confine_control.ts";
import { checkoutHelper } from "../sandbox/confine_helper.ts";
import { encodeRecords } from "../sandbox/confine_records.ts";
import type { ConfinedCommand } from "../sandbox/confined_command.ts";
import { NetworkKeeper } from "../sandbox/network_keeper.ts";
import { ConfinedPlace } from "../sandbox/testing/confined_place.ts";
import { type BenchResult, type Figure, median } from "./result.ts";

/** Rounds of each kind; they take turns in blocks, so that a busy moment of the machine meets all of them. */
const BLOCKS = 10;
const ROUNDS = 20;

/** Commands of a batch, and how many run at a time. */
const BATCH = 200;
const LANES = 4;

const BWRAP = ["--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "/bin/true"];

/**
 * What nine of ten rounds took more than. Other programs on the machine only ever add, and to a start that passes from
 * process to process more than to one that does not.
 */
function undisturbed(samples: readonly number[]): number {
  return samples.toSorted((a, b) => a - b)[Math.floor(samples.length / 10)]!;
}

async function output(program: string, args: readonly string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args: [...args], stdin: "null" }).output();
  if (!success) throw new Error(`${program}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

async function which(name: string): Promise<string | null> {
  return await output("/bin/sh", ["-c", `command -v ${name}`]).then((path) => path.trim(), () => null);
}

function statusField(pid: number, field: string): number {
  return Number(new RegExp(`^${field}:\\s*(\\d+)`, "m").exec(Deno.readTextFileSync(`/proc/${pid}/status`))![1]);
}

/** Resident memory of a command's helper and its init together, in MB. */
async function helperMemory(command: ConfinedCommand): Promise<number> {
  const started = await command.started;
  if (started === null) throw new Error("the command did not start");
  const init = statusField(started.pid, "PPid");
  return (statusField(init, "VmRSS") + statusField(statusField(init, "PPid"), "VmRSS")) / 1024;
}

export async function run(): Promise<BenchResult> {
  const helper = await checkoutHelper();
  await using place = new ConfinedPlace(helper);
  const keeper = await NetworkKeeper.start({
    helper,
    controlDirectory: place.control,
    ports: [80, 443],
    onConnection: (connection) => connection.refuse(),
    onQuery: () => Promise.resolve(null),
    startMs: 10_000,
    preambleMs: 10_000,
  });
  // In memory where that can be: what a disk's file system takes for a socket's name is no part of this.
  const sockets = await Deno.makeTempDir({ dir: "/dev/shm" }).catch(() => Deno.makeTempDir());
  const starter = `${place.root}/confine_rounds`;
  await output("cc", ["-O2", "-o", starter, new URL("./confine_rounds.c", import.meta.url).pathname]);
  const kinds = new Map<string, readonly string[]>([["bare", ["plain", "/bin/true"]]]);
  for (const [name, tier] of [["scoped", "full"], ["sealed", "sealed"]] as const) {
    const records = place.records("/bin/true", ["true"], { tier, records: [keeper.join] });
    Deno.writeFileSync(`${place.root}/${name}`, encodeFrame(FRAME.SPEC, encodeRecords(records)));
    kinds.set(name, ["confined", helper, `${place.root}/${name}`, sockets]);
  }
  const bwrap = await which("bwrap");
  if (bwrap !== null) kinds.set("peer", ["plain", bwrap, ...BWRAP]);
  else console.log("bwrap is not here (Debian package bubblewrap): no ratios against it");

  const times = new Map<string, number[]>([...kinds.keys(), "runtime"].map((name) => [name, []]));
  const batches = new Map<string, number[]>([...kinds.keys()].map((name) => [name, []]));
  for (let block = 0; block < BLOCKS; block++) {
    for (const [name, kind] of kinds) {
      const lines = (await output(starter, [String(ROUNDS), "1", ...kind])).trim().split("\n");
      times.get(name)!.push(...lines.map(Number));
    }
    for (let round = 0; round < ROUNDS; round++) {
      const start = performance.now();
      const end = await place.run("/bin/true", ["true"], { tier: "sealed", records: [keeper.join] });
      times.get("runtime")!.push(performance.now() - start);
      if (end.exitCode !== 0) throw new Error(end.failure?.reason ?? end.stderr);
    }
    for (const [name, kind] of block % 2 === 0 ? kinds : []) {
      batches.get(name)!.push(Number(await output(starter, [String(BATCH), String(LANES), ...kind])));
    }
  }
  const of = (name: string) => undisturbed(times.get(name)!);
  const all = (name: string) => median(batches.get(name)!);
  const figures: Figure[] = [
    { what: "/bin/true without containment", value: of("bare"), unit: "ms" },
    { what: "/bin/true, scoped", value: of("scoped"), unit: "ms" },
    { what: "/bin/true, sealed", value: of("sealed"), unit: "ms" },
    { what: "/bin/true, sealed, through the runtime's modules", value: of("runtime"), unit: "ms" },
    { what: "the same, ratio to the bare helper", value: of("runtime") / of("sealed"), unit: "x", atMost: 2.5 },
  ];
  if (bwrap !== null) {
    const many = `${BATCH}, ${LANES} at a time`;
    figures.push(
      { what: "/bin/true, bwrap --unshare-all", value: of("peer"), unit: "ms" },
      { what: "scoped, ratio", value: of("scoped") / of("peer"), unit: "x", atMost: 0.55 },
      { what: "sealed, ratio", value: of("sealed") / of("peer"), unit: "x", atMost: 0.6 },
      { what: `${many}, bwrap`, value: all("peer"), unit: "ms" },
      { what: `${many}, scoped, ratio`, value: all("scoped") / all("peer"), unit: "x", atMost: 0.6 },
      { what: `${many}, sealed, ratio`, value: all("sealed") / all("peer"), unit: "x", atMost: 0.6 },
    );
  }
  const command = place.start("/bin/sh", ["sh", "-c", "sleep 1000; :"], { tier: "sealed", records: [keeper.join] });
  figures.push(
    {
      what: "helper and init while a command runs, resident",
      value: await helperMemory(command),
      unit: "MB",
      atMost: 2,
    },
    { what: "keeper, resident", value: statusField(keeper.pid, "VmRSS") / 1024, unit: "MB" },
    { what: "helper on disk (with musl)", value: Deno.statSync(helper).size / 1024, unit: "KB", atMost: 150 },
  );
  command.kill();
  await command.end;
  await keeper.stop();
  await Deno.remove(sockets, { recursive: true });
  return { name: "containment of a command (peer: bubblewrap)", figures };
}
