/**
 * Script capsules: one component that runs once, without a model and without a door (spec session 20).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import { type AgentProject, agentProject, type AgentRun, toolEntry } from "../support/agent_project.ts";
import { spawnMur } from "../support/mur_process.ts";
import { preparedFile } from "../support/prepared_home.ts";
import { processesBelow, stillRunning, until } from "../support/process_tree.ts";

const MANIFEST: JsonObject = {
  name: "probe-script",
  version: "0.1.0",
  artifacts: [toolEntry("probe-tool", { config: { a: 1 } }), toolEntry("native-probe"), toolEntry("trap-tool")],
  capabilities: { env: { allow: ["COLOUR"] } },
};

async function scriptProject(manifest: JsonObject = MANIFEST): Promise<AgentProject> {
  const project = await agentProject(manifest);
  await Deno.copyFile(await preparedFile("probe_capsule.wasm"), `${project.project}/capsule.wasm`);
  return project;
}

const wish = (project: AgentProject, what: JsonObject, args: readonly string[] = [], env = {}): Promise<AgentRun> =>
  project.run({ args, stdin: JSON.stringify(what), env });

async function assertNothingRuns(project: AgentProject): Promise<void> {
  for (const name of ["sessions", "running"]) {
    assert.deepEqual(await Array.fromAsync(Deno.readDir(`${project.murmur}/${name}`)), [], name);
  }
}

Deno.test("a script capsule prints, writes into its work folder, calls tools and ends", async () => {
  await using project = await scriptProject();
  const [printed, json, text, invoked] = await Promise.all([
    wish(project, {
      print: "to\u001bstdout",
      complain: "to stderr",
      write: { path: "result.txt", text: "mine" },
    }),
    wish(project, { environment: true }, ["--json"], { COLOUR: "blue", OTHER: "x", MURMUR_SESSION_ID: "foreign" }),
    wish(project, { print: "an answer" }, ["--output", "text", "-v"]),
    wish(project, { invoke: { name: "probe-tool", input: { operation: "environment" } } }),
  ]);
  for (const run of [printed, json, text, invoked]) assert.equal(run.status, 0, run.stderr);
  assert.equal(printed.stdout, `session: ${printed.sessionId}\nto\u001bstdout\nstatus:  ok\n`);
  assert.match(printed.stderr, /to stderr\n/);
  assert.equal(await project.read(`workdir/${printed.sessionId}/result.txt`), "mine");
  // Nothing is traced of one that pulls and sends nothing, and there is no inventory of a model's tools.
  assert.equal(printed.traceText, "");

  const ready = JSON.parse(json.stdout);
  assert.equal(json.stdout.trimEnd().split("\n").length, 1);
  assert.deepEqual([ready.url, ready.name], ["", "probe-script"]);
  const environment = JSON.parse(json.stderr.split("\n").find((line) => line.startsWith("{"))!);
  assert.deepEqual(environment, {
    COLOUR: "blue",
    MURMUR_CAPSULE_NAME: "probe-script",
    MURMUR_CAPSULE_VERSION: "0.1.0",
    MURMUR_SESSION_ID: ready.session_id,
  });

  assert.equal(text.stdout, "");
  assert.match(text.stderr, /an answer\n[\s\S]*status: {2}ok\n/);

  const result = JSON.parse(invoked.stdout.split("\n")[1]!);
  assert.equal(result.status, "passed");
  const seen = JSON.parse(result.data);
  assert.deepEqual(seen.config, { a: 1 });
  // A tool of a script capsule knows of no model and no door.
  assert.deepEqual(Object.keys(seen.environment).sort(), [
    "MURMUR_ARTIFACT_CONFIG",
    "MURMUR_CAPSULE_NAME",
    "MURMUR_CAPSULE_VERSION",
    "MURMUR_SESSION_ID",
  ]);
  await assertNothingRuns(project);
  assert.match(await project.read("murmur.lock"), /name: probe-tool/);
});

Deno.test("a script capsule that works in its own folder can't become another one", async () => {
  await using project = await scriptProject();
  await Deno.rename(`${project.project}/capsule.wasm`, `${project.project}/only.wasm`);
  const args = ["--workdir", project.project];
  const before = await Deno.readFile(`${project.project}/only.wasm`);
  // The second would be preferred to the first.
  for (const path of ["only.wasm", "capsule.wasm"]) {
    const run = await wish(project, { write: { path, text: "another" } }, args);
    assert.notEqual(run.status, 0, path);
  }
  const written = await wish(project, { write: { path: "result.txt", text: "mine" } }, args);
  assert.equal(written.status, 0, written.stderr);
  assert.deepEqual(await Deno.readFile(`${project.project}/only.wasm`), before);
  await assert.rejects(Deno.lstat(`${project.project}/capsule.wasm`), Deno.errors.NotFound);
});

Deno.test("a tool that is not declared, is native or traps is an error the capsule goes on from", async () => {
  await using project = await scriptProject();
  const [undeclared, native, trapped, failed] = await Promise.all([
    wish(project, { invoke: { name: "murmur-tool-fetch", input: {} } }),
    wish(project, { invoke: { name: "native-probe", input: {} } }),
    wish(project, { invoke: { name: "trap-tool", input: { operation: "x" } } }),
    wish(project, { invoke: { name: "probe-tool", input: { operation: "throw", text: "no" } } }),
  ]);
  const said = (run: AgentRun) => {
    assert.equal(run.status, 0, run.stderr);
    return run.stdout.split("\n")[1]!;
  };
  assert.equal(said(undeclared), "refused: tool 'murmur-tool-fetch' is not declared in manifest allowlist");
  assert.match(said(native), /^refused: /);
  assert.match(said(trapped), /^refused: tool 'trap-tool' trapped: /);
  assert.deepEqual(JSON.parse(said(failed)).status, "error");
});

Deno.test("a script capsule that throws, traps or never returns ends trapped", async () => {
  await using project = await scriptProject({ ...MANIFEST, capabilities: { limits: { deadline_seconds: 1 } } });
  await using traps = await agentProject({ name: "probe-script", version: "0.1.0" });
  await Deno.copyFile(await preparedFile("trap_tool.wasm"), `${traps.project}/only.wasm`);
  const [thrown, looped, missing] = await Promise.all([
    wish(project, { print: "before", throws: "on purpose" }),
    wish(project, { loop: true }, ["--json"]),
    traps.run(),
  ]);
  for (const run of [thrown, looped]) {
    assert.equal(run.status, 1);
    assert.match(run.stderr, /^error\[E-RUN-001\]: /m);
  }
  assert.match(thrown.stdout, /\nbefore\nstatus: {2}trapped\n$/);
  assert.match(thrown.stderr, /on purpose/);
  assert.equal(looped.stdout.trimEnd().split("\n").length, 1);
  assert.match(looped.stderr, /^error\[E-RUN-001\]: .*1s.*deadline/m);
  // It exports what a tool does, not what a capsule does.
  assert.equal(missing.status, 1);
  assert.match(missing.stderr, /^error\[E-RUN-001\]: .*murmur:capsule\/run@0\.1\.0/m);
  await assertNothingRuns(project);
});

Deno.test("a script capsule is ended by a signal at once, with everything it runs", async () => {
  await using project = await scriptProject();
  const child = spawnMur(["run"], { cwd: project.project, home: project.home, stdin: '{"print":"up","loop":true}' });
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode('{"print":"up","loop":true}'));
  await writer.close();
  const stdout = new Response(child.stdout).text();
  const stderr = new Response(child.stderr).text();
  let below = processesBelow(child.pid);
  await until("it serves", async () => {
    below = processesBelow(child.pid);
    return below.length > 0 &&
      (await Array.fromAsync(Deno.readDir(`${project.murmur}/running`)).catch(() => [])).length > 0;
  });
  await new Promise((resolve) => setTimeout(resolve, 300));
  below = processesBelow(child.pid);
  child.kill("SIGTERM");
  const { signal } = await child.status;
  await Promise.all([stdout, stderr]);
  assert.equal(signal, "SIGTERM");
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  assert.deepEqual(stillRunning(below), []);
});
