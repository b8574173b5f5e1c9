/**
 * From the `delegate-task` call to `started`, against `mur run` of the same child to its readiness line, in turn in one run:
 * the bundled program, a real daemon, the scripted driver.
 *
 * @module
 */
import { ArtifactStore } from "../artifact/store.ts";
import { writeZip } from "../artifact/zip_writer.ts";
import { firstPartyComponents } from "../scripts/build_components.ts";
import { benchProject } from "./bundled_mur.ts";
import { type BenchResult, median } from "./result.ts";

const ROUNDS = 9;

const DAEMON = decodeURIComponent(new URL("../roost/main.ts", import.meta.url).pathname);

function manifest(name: string, turns: unknown, more: string): string {
  return `name: ${name}
version: "0.1.0"
artifacts:
  - name: murmur-driver-scripted
    version: "0.1.0"
    runtime: driver
    gateway: { endpoint: "http://127.0.0.1:1", keyless: true }
inference:
  model: scripted
  driver: { artifact: murmur-driver-scripted, config: { turns: ${JSON.stringify(turns)} } }
${more}`;
}

const CHILD = manifest(
  "child",
  [{ text: "done" }],
  "lifecycle: { task_acceptance: single, after_task: exit }\n",
);
const CALL = {
  tool_calls: [{ name: "delegate-task", input: { capsule: "child", version: "0.1.0", task: "hello" } }],
};

async function install(home: string, name: string, text: string): Promise<void> {
  const bytes = await writeZip([{
    name: "murmur.yaml",
    bytes: new TextEncoder().encode(`${text}runtime: capsule\nexecution: static\n`),
  }]);
  await new ArtifactStore(`${home}/.murmur/artifacts`).put({
    metadata: {
      name,
      version: "0.1.0",
      kind: "static",
      role: "capsule",
      platforms: [],
      description: null,
      tags: [],
      contracts: null,
    },
    platform: null,
    bytes,
  }, "install");
}

/** The daemon, and the address it listens on. */
async function startDaemon(home: string): Promise<{ readonly url: string } & AsyncDisposable> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "-A", DAEMON, "--port", "0", "--spawn-allow", "local/bench"],
    env: { HOME: home },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const reader = child.stderr.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("machine ceiling")) text += (await reader.read()).value ?? "";
  (async () => {
    while (!(await reader.read()).done);
  })();
  return {
    url: `http://127.0.0.1:${/listening on 127\.0\.0\.1:(\d+)/.exec(text)![1]}`,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.status;
    },
  };
}

/** Time from the start of a process to the first line of its output; then it is ended. */
async function toFirstLine(command: Deno.Command): Promise<number> {
  const start = performance.now();
  const child = command.spawn();
  const errors = new Response(child.stderr).text();
  const reader = child.stdout.getReader();
  const { done } = await reader.read();
  const elapsed = performance.now() - start;
  if (done) throw new Error(`the child did not start: ${await errors}`);
  (async () => {
    while (!(await reader.read()).done);
  })();
  child.kill("SIGTERM");
  await child.status;
  return elapsed;
}

/** What `delegate-task` took in the trace of a session, in milliseconds. */
async function callTime(records: string): Promise<number> {
  for (const line of (await Deno.readTextFile(`${records}/trace.jsonl`)).split("\n")) {
    if (!line.startsWith('{"event_type":"tool_call"') || !line.includes('"tool_name":"delegate-task"')) continue;
    const { status, duration_ms, output } = JSON.parse(line);
    if (status === "ok") return duration_ms;
    throw new Error(`the delegation failed: ${output}`);
  }
  throw new Error("nothing was delegated");
}

export async function run(): Promise<BenchResult> {
  const parent = manifest(
    "bench",
    [CALL, { text: "waiting" }],
    "capabilities: { spawn: { allow: [local/child] } }\ntrace: { capture: content }\n",
  );
  await using project = await benchProject(parent, ["murmur-driver-scripted"]);
  // A child stands in no project: what it is made of is installed for the user.
  for (const archive of (await firstPartyComponents(["murmur-driver-scripted"])).values()) {
    await project.run("install", "-g", archive);
  }
  for (const [name, text] of [["bench", parent], ["child", CHILD]] as const) await install(project.home, name, text);
  await using daemon = await startDaemon(project.home);
  project.env.MURMUR_ROOST_URL = daemon.url;
  const work = `${project.project}/work`;
  await Deno.mkdir(work);
  const times = { alone: [] as number[], delegated: [] as number[] };
  for (let round = -1; round < ROUNDS; round++) {
    const alone = await toFirstLine(
      project.command("run", "--capsule", "local/child", "--capsule-version", "0.1.0", "--workdir", work, "--json"),
    );
    const said = await project.run("run", "--json", "--task", "go", "--workdir", project.project);
    const { session_id } = JSON.parse(said);
    const delegated = await callTime(`${project.home}/.murmur/records${project.project}/${session_id}`);
    // The first of each also writes caches.
    if (round < 0) continue;
    times.alone.push(alone);
    times.delegated.push(delegated);
  }
  return {
    name: "child-launch (bundled program; peer: mur run of the same child to its readiness line)",
    figures: [
      { what: "mur run to its readiness line", value: median(times.alone), unit: "ms" },
      { what: "delegate-task to started", value: median(times.delegated), unit: "ms" },
      {
        what: "delegate-task to started, ratio",
        value: median(times.delegated.map((each, round) => each / times.alone[round]!)),
        unit: "x",
        atMost: 1.5,
      },
    ],
  };
}
