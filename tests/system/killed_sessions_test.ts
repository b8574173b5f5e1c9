/**
 * Two hundred sessions, each killed outright at a random moment of its life: nothing is left running, what is left on disk
 * is whole or told as cut, and the next `mur ps` clears the records away (spec cli 4.2, trace 12).
 *
 * @module
 */
import assert from "node:assert/strict";
import { main } from "../../cli/main.ts";
import { agentProject, capsule } from "../support/agent_project.ts";
import { testContext } from "../support/cli_context.ts";
import { spawnMur } from "../support/mur_process.ts";
import { processesBelow, type SeenProcess, stillRunning } from "../support/process_tree.ts";

const SESSIONS = 200;
const AT_ONCE = 6;
/** Latest moment, in launches that many at once take here and now: a third of them fall into the turns of a session. */
const LATEST_LAUNCHES = 1.5;

const PROGRAM = {
  turns: [
    { chunks: ["a", "b"], calls: [{ name: "sh", input: { command: "sleep 0.2; echo one" } }] },
    { calls: [{ name: "sh", input: { command: "(setsid sleep 300 &) ; echo two" } }] },
    { calls: [{ name: "sh", input: { command: "sleep 300" } }] },
    { delayMs: 60_000, text: "never" },
  ],
};

async function allFiles(directory: string, name: string): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of Deno.readDir(directory)) {
    if (entry.name === name) found.push(`${directory}/${name}`);
    else if (entry.isDirectory) found.push(...await allFiles(`${directory}/${entry.name}`, name));
  }
  return found;
}

Deno.test("sessions killed at any moment leave nothing running and nothing that cannot be read", async () => {
  await using project = await agentProject(
    capsule({
      capabilities: { shell: { allow: ["sh", "sleep", "setsid"] } },
      lifecycle: { task_acceptance: "queue", after_task: "sleep", shell_grace_secs: 1 },
    }),
  );
  const seen: SeenProcess[] = [];
  let served = 0;
  const launch = () =>
    spawnMur(["run", "--json", "--task", JSON.stringify(PROGRAM)], { cwd: project.project, home: project.home });
  const launched = performance.now();
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    const child = launch();
    child.stderr.cancel();
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) if (text.includes("session_id")) break;
    seen.push(...processesBelow(child.pid));
    child.kill("SIGKILL");
    await child.status;
  }));
  const latestMs = LATEST_LAUNCHES * (performance.now() - launched);
  const killOne = async () => {
    const child = launch();
    const output = new Response(child.stdout).text();
    child.stderr.cancel();
    await new Promise((resolve) => setTimeout(resolve, Math.random() * latestMs));
    seen.push(...processesBelow(child.pid));
    child.kill("SIGKILL");
    await child.status;
    if ((await output).includes("session_id")) served++;
  };
  for (let started = 0; started < SESSIONS; started += AT_ONCE) {
    await Promise.all(Array.from({ length: AT_ONCE }, killOne));
  }
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  assert.deepEqual(stillRunning(seen), []);
  assert.ok(served > SESSIONS / 8 && served < SESSIONS, `${served} sessions came as far as serving`);

  const listed = await project.mur(["ps", "--json"]);
  assert.equal(listed.status, 0, listed.stderr);
  const { sessions, pruned } = JSON.parse(listed.stdout);
  assert.deepEqual(sessions, []);
  assert.ok(pruned.length >= served - 1, `${pruned.length} records of ${served} sessions`);
  assert.deepEqual(await Array.fromAsync(Deno.readDir(`${project.murmur}/running`)), []);

  const traces = await allFiles(`${project.murmur}/records`, "trace.jsonl");
  assert.ok(traces.length >= served);
  for (const trace of traces) {
    const context = testContext(project.project, { HOME: project.home });
    const status = await main(["trace", "show", trace], context);
    const text = await Deno.readTextFile(trace);
    // Killed between making the file and its first line, a session has nothing to show, and that is said.
    if (text === "") assert.match(context.err(), /E-TRC-001.*the trace is empty/, trace);
    else assert.equal(status, 0, context.err());
    if (text !== "") assert.match(context.out(), /ended without a session_end/, trace);
    // Every line but a last one without its newline is whole.
    for (const line of text.split("\n").slice(0, -1)) JSON.parse(line);
  }

  // The next launch finds the scratch directories of the dead and clears them away.
  const next = await project.run({ task: { turns: [{ text: "fine" }] }, args: ["--lifecycle-after-task", "exit"] });
  assert.equal(next.status, 0, next.stderr);
  assert.deepEqual(await Array.fromAsync(Deno.readDir(`${project.murmur}/sessions`)), []);
});
