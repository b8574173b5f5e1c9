/**
 * `mur run` as the first process of a PID namespace, as a container starts it: what loses its parent there is reaped, and
 * signals end it as they do anywhere else (spec session 17.3).
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import { RoostDaemon } from "../../roost/testing/daemon.ts";
import { agentProject, capsule } from "../support/agent_project.ts";
import {
  childProcesses,
  delegate,
  delegates,
  delegating,
  delegationWorld,
  readTrace,
  worker,
} from "../support/delegation_world.ts";
import { spawnMur } from "../support/mur_process.ts";
import { preparedFile } from "../support/prepared_home.ts";
import { processesBelow, type SeenProcess, stillRunning, until } from "../support/process_tree.ts";

/** Puts a command first in a namespace of its own, which ends with it. */
const FIRST: readonly string[] = [
  "unshare",
  ...(Deno.uid() === 0 ? [] : ["--user", "--map-current-user"]),
  "--pid",
  "--fork",
  "--kill-child",
  "--mount-proc",
  "--",
];

const LONG: JsonObject = { turns: [{ delayMs: 60_000, text: "never" }] };
const STARTS_MS = 40_000;

/** The first process of the namespace that `unshare` made. */
function firstBelow(pid: number): SeenProcess {
  const [first] = processesBelow(pid);
  assert.ok(first !== undefined, "it has ended");
  return first;
}

/** Processes below one that have ended and were not waited for. */
function zombiesBelow(pid: number): readonly SeenProcess[] {
  const seen = processesBelow(pid);
  const running = new Set(stillRunning(seen).map((each) => each.pid));
  return seen.filter((each) => !running.has(each.pid));
}

Deno.test("what a killed child leaves behind is reaped, and the parent goes on", async () => {
  const shell = { shell: { allow: ["sh", "sleep", "setsid"] } };
  const boss = capsule(delegating(["local/worker"], { name: "boss", capabilities: shell }));
  await using world = await delegationWorld(boss, [worker("worker", { capabilities: shell })]);
  // Its records name processes of the namespace, which only a daemon inside it could look up.
  const elsewhere = `${world.project.root}/elsewhere`;
  Deno.mkdirSync(elsewhere);
  await using daemon = await RoostDaemon.start([
    "--spawn-allow",
    "local/boss",
    "--registry-path",
    `${world.project.murmur}/artifacts`,
  ], { home: elsewhere });
  const busy = { turns: [{ calls: [{ name: "sh", input: { command: "(setsid sleep 60 &); sleep 60" } }] }] };
  const run = await world.start(delegates(delegate("worker", busy), delegate("worker", LONG)), {
    env: { MURMUR_ROOST_URL: daemon.url },
    under: FIRST,
  });
  await until(
    "both children work",
    () => {
      const works = ({ trace }: { readonly trace: readonly JsonObject[] }) =>
        trace.some(({ event_type }) => event_type === "task_start");
      const children = world.children(readTrace(run.records));
      return children.length === 2 && children.every(works) && processesBelow(run.pid).some(isSleep);
    },
    STARTS_MS,
  );
  const [victim] = childProcesses(run.pid);
  const before = processesBelow(victim!.pid);
  assert.ok(before.length > 3, "it has helpers of its own");
  Deno.kill(victim!.pid, "SIGKILL");
  await until("its end is known", () => readTrace(run.records).some(({ event_type }) => event_type === "delegation"));
  await until("nothing of it runs", () => stillRunning(before).length === 0);
  await until("nothing is left to be reaped", () => zombiesBelow(run.pid).length === 0);
  // The other child works on, and the parent ends as it is told to.
  assert.equal(childProcesses(run.pid).length, 1);
  Deno.kill(firstBelow(run.pid).pid, "SIGTERM");
  const ended = await run.finish();
  assert.equal(ended.status, 1, ended.stderr);
  assert.equal(ended.trace.at(-1)!.exit_status, "canceled");
  assert.deepEqual(ended.events("delegation").map(({ outcome }) => outcome), ["crashed", "terminated"]);
});

function isSleep({ command }: SeenProcess): boolean {
  return command === "sleep";
}

Deno.test("a signal ends it as it ends any other, and its exit status is that of the command", async () => {
  await using agent = await agentProject(capsule());
  await using script = await agentProject({ name: "probe-script", version: "0.1.0" });
  await Deno.copyFile(await preparedFile("probe_capsule.wasm"), `${script.project}/capsule.wasm`);
  const signalled = async (
    { project, home }: typeof agent,
    args: readonly string[],
    stdin: string | null,
    signal: Deno.Signal,
  ) => {
    const options = { cwd: project, home, under: FIRST };
    const child = spawnMur(["run", "--json", ...args], stdin === null ? options : { ...options, stdin });
    child.stderr.cancel();
    if (stdin !== null) await new Response(stdin).body!.pipeTo(child.stdin);
    // Its first line says that it runs.
    const lines = child.stdout.getReader();
    await lines.read();
    Deno.kill(firstBelow(child.pid).pid, signal);
    const { code } = await child.status;
    await lines.cancel();
    return code;
  };
  const looping = JSON.stringify({ loop: true });
  const [interrupted, terminated, finished] = await Promise.all([
    signalled(agent, ["--task", JSON.stringify(LONG)], null, "SIGINT"),
    signalled(script, [], looping, "SIGTERM"),
    agent.run({ task: { turns: [{ throws: "no answer" }] }, under: FIRST }),
  ]);
  assert.deepEqual([interrupted, terminated], [130, 143]);
  assert.equal(finished.status, 1);
  assert.match(finished.stderr, /E-RUN-040/);
});
