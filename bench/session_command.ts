/**
 * What a shell command of a session costs the runtime: from the call of the tool to its result, over plan, placeholders,
 * network, helper, frames and output, against the bare helper doing the same by the same records.
 *
 * Needs a C compiler.
 *
 * @module
 */
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { murmurHomeAt } from "../base/murmur_home.ts";
import { RootedDir } from "../base/rooted_dir.ts";
import { DEFAULT_TIME_BOUNDS } from "../base/time_bounds.ts";
import { CommandContainment } from "../runtime/session/command_containment.ts";
import { ContainedCommands } from "../runtime/session/contained_commands.ts";
import { judgeContainment } from "../runtime/session/containment_judgement.ts";
import { sessionPaths } from "../runtime/session/session_directories.ts";
import { encodeFrame, FRAME } from "../sandbox/confine_control.ts";
import { checkoutHelper } from "../sandbox/confine_helper.ts";
import { encodeRecords } from "../sandbox/confine_records.ts";
import { readHost } from "../sandbox/host_containment.ts";
import { ShellSession } from "../sandbox/shell_session.ts";
import { SessionNetwork } from "../sandbox/session_network.ts";
import { type BenchResult, type Figure, median } from "./result.ts";

/** Rounds of each kind; they take turns in blocks, so that a busy moment of the machine meets both. */
const BLOCKS = 10;
const ROUNDS = 20;

const PATH = "/usr/bin:/bin";

async function output(program: string, args: readonly string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args: [...args], stdin: "null" }).output();
  if (!success) throw new Error(`${program}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

/** Times of commands of one floor, in milliseconds. */
async function measure(floor: "scoped" | "sealed", starter: string, root: string, sockets: string) {
  const helper = await checkoutHelper();
  const home = murmurHomeAt(`${root}/home`);
  const workdir = `${root}/work`;
  const paths = sessionPaths(home, { id: `ses_${"0".repeat(32)}`, workdirRoot: workdir, workdir });
  for (
    const directory of [
      workdir,
      paths.runtime,
      ...["tmp", "home", "logs"].map((name) => `${paths.records}/${name}`),
    ]
  ) {
    await Deno.mkdir(directory, { recursive: true });
  }
  const { manifest } = parseCapsuleManifest(
    'name: a\nversion: "1"\ncapabilities: { shell: { allow: [true] } }\n'.replace("true", '"true"'),
    `${workdir}/murmur.yaml`,
  );
  const judgement = await judgeContainment({
    manifest,
    floor,
    host: await readHost(),
    home,
    path: PATH,
    workdir,
    workdirRoot: workdir,
    hostPaths: [],
    hostPathFile: home.config,
    trusted: [],
    hostReported: true,
    nativeTools: [],
  });
  if (judgement.refusals[0] !== undefined) throw judgement.refusals[0];
  const containment = await CommandContainment.prepare({ manifest, judgement, paths, path: PATH });
  const controlDirectory = `${paths.scratch}/ctl`;
  const contained = new ContainedCommands({
    containment,
    helper,
    controlDirectory,
    rules: [],
    bounds: DEFAULT_TIME_BOUNDS,
    report: console.error,
  });
  const shell = new ShellSession({
    allow: judgement.allow.binaries,
    start: ({ path, args, ...streams }, signal) =>
      contained.start(
        { program: containment.programOf(path), args, native: false },
        { ...streams, env: { PATH }, input: null },
        signal,
      ),
    logs: { dir: RootedDir.open(`${paths.records}/logs`), path: `${paths.records}/logs` },
    grace: 60_000,
    poll: DEFAULT_TIME_BOUNDS.shellPoll,
    refusal: () => null,
    onCompleted: () => {},
  });
  await using network = await SessionNetwork.open({ helper, controlDirectory, rules: [] });
  const program = containment.programOf(judgement.allow.binaries[0]!.matches[0]!);
  const spec = `${root}/spec`;
  const records = containment.records({ program, args: ["x"], native: false }, await network.join());
  await Deno.writeFile(spec, encodeFrame(FRAME.SPEC, encodeRecords(records)));
  const bare: number[] = [];
  const whole: number[] = [];
  for (let block = 0; block < BLOCKS; block++) {
    const lines = (await output(starter, [String(ROUNDS), "1", "confined", helper, spec, sockets])).trim().split("\n");
    bare.push(...lines.map(Number));
    for (let round = 0; round < ROUNDS; round++) {
      const start = performance.now();
      const outcome = await shell.run("true", { command: "x" });
      whole.push(performance.now() - start);
      if (outcome.kind !== "finished" || outcome.result.exitCode !== 0) throw new Error(JSON.stringify(outcome));
    }
  }
  await contained[Symbol.asyncDispose]();
  containment.close();
  return { bare: median(bare), whole: median(whole) };
}

export async function run(): Promise<BenchResult> {
  const root = await Deno.realPath(await Deno.makeTempDir());
  const sockets = await Deno.makeTempDir({ dir: "/dev/shm" }).catch(() => Deno.makeTempDir());
  try {
    const starter = `${root}/confine_rounds`;
    await output("cc", ["-O2", "-o", starter, new URL("./confine_rounds.c", import.meta.url).pathname]);
    const figures: Figure[] = [];
    for (const floor of ["scoped", "sealed"] as const) {
      const place = `${root}/${floor}`;
      await Deno.mkdir(place);
      const { bare, whole } = await measure(floor, starter, place, sockets);
      figures.push(
        { what: `true, ${floor}, bare helper`, value: bare, unit: "ms" },
        { what: `true, ${floor}, as a session's tool call`, value: whole, unit: "ms" },
        { what: `the same, ratio to the bare helper`, value: whole / bare, unit: "x", atMost: 2.5 },
      );
    }
    return { name: "a session's shell command (peer: the bare helper)", figures };
  } finally {
    for (const directory of [root, sockets]) await Deno.remove(directory, { recursive: true });
  }
}
