/**
 * Plans that hand work to other capsules: a real daemon, parents and children as processes of their own (roost seed "What
 * a capsule meant to be delegated to declares", spec roost 15, components 12.5).
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import {
  type AgentRun,
  capsule,
  type CapsuleBlocks,
  hookEntry,
  shownResults,
  toolEntry,
} from "../support/agent_project.ts";
import {
  childProcesses,
  delegate,
  type DelegationWorld,
  delegationWorld,
  readTrace,
  worker,
} from "../support/delegation_world.ts";
import { type SeenProcess, stillRunning, until } from "../support/process_tree.ts";

const FAULTY_MUR = new URL("../support/faulty_mur.ts", import.meta.url).pathname;

interface Report {
  readonly completed: boolean;
  readonly failed_step: string | null;
  readonly steps: readonly {
    readonly step_id: string;
    readonly status: string;
    readonly output: string | null;
    readonly error: string | null;
  }[];
}

function boss(
  allow: readonly string[],
  blocks: CapsuleBlocks & { readonly capabilities?: JsonObject } = {},
): JsonObject {
  return capsule({
    name: "boss",
    artifacts: [toolEntry("probe-tool")],
    ...blocks,
    capabilities: { plan: { submit: true }, spawn: { allow }, ...blocks.capabilities },
  });
}

/** A capsule as a plan's step wants it: its answer is read while it still serves. */
function serving(name: string, blocks: CapsuleBlocks = {}): JsonObject {
  return worker(name, { ...blocks, lifecycle: { task_acceptance: "queue", after_task: "sleep" } });
}

const says = (text: string, delayMs = 0): string => JSON.stringify({ turns: [{ delayMs, text }] });

function plan(id: string, steps: readonly JsonObject[]): JsonObject {
  return { name: "submit-plan", input: { id, steps } };
}

function plans(...calls: readonly JsonObject[]): JsonObject {
  return { turns: [{ calls }, { show: "results" }] };
}

function reports(run: AgentRun): Report[] {
  assert.equal(run.status, 0, run.stderr);
  return shownResults(run).map(({ text }) => JSON.parse(text.split("\n")[1]!) as Report);
}

/** The fence of a child's task as the report shows it: nothing inside a fence ends it. */
function marked(text: string): string {
  const mark = "!MURMUR-NEUTRALISED!";
  return `<${mark}untrusted-content source=task:event>\n${text}\n<${mark}/untrusted-content>`;
}

/** `outcome capsule` of every delegation that ended, in the order of their ends. */
function outcomes(run: AgentRun): string[] {
  return run.events("delegation").map(({ outcome, capsule }) => `${outcome} ${capsule}`);
}

async function assertNothingLeft(
  world: DelegationWorld,
  run: AgentRun,
  seen: readonly SeenProcess[] = [],
): Promise<void> {
  assert.deepEqual(stillRunning(seen), []);
  assert.equal(await world.liveChildren(run.sessionId!), 0);
  assert.deepEqual([...Deno.readDirSync(`${world.project.murmur}/running`)], []);
}

Deno.test("capsule steps run side by side, and what they answer goes to later steps", async () => {
  await using world = await delegationWorld(boss(["local/worker", "local/other"]), [
    serving("worker"),
    serving("other"),
  ]);
  const run = await world.run(plans(plan("p", [
    { id: "slow", capsule: "worker", input: says("the slow answer", 5_000) },
    // Late enough that the other one has started on a busy machine too.
    { id: "quick", capsule: "local/other", input: { objective: says("the quick answer", 1_500) } },
    {
      id: "write",
      tool: "probe-tool",
      input: { operation: "write", path: "answers", text: "$slow.output" },
      depends_on: ["slow", "quick"],
      if: "$quick.output == 'the quick answer'",
    },
    { id: "ask", capsule: "worker", input: "$quick.output", depends_on: ["write"] },
  ])));
  const [report] = reports(run);
  assert.deepEqual(report!.steps.map(({ step_id, status, output }) => [step_id, status, output]), [
    ["quick", "success", "the quick answer"],
    ["slow", "success", "the slow answer"],
    ["write", "success", "written"],
    // The program driver answers what is no program with what it was told.
    ["ask", "success", "you said: " + marked("the quick answer")],
  ]);
  assert.deepEqual(outcomes(run), ["completed other", "completed worker", "completed worker"]);
  const starts = run.events("delegation_start");
  const at = (id: string) => run.events("plan_step").find(({ step_id }) => step_id === id)!;
  // Both run before either is over.
  assert.ok(starts[1]!.timestamp! < at("quick").timestamp!);
  assert.deepEqual(at("slow").kind, "capsule");
  const children = world.children(run.trace);
  assert.equal(children.length, 3);
  for (const child of children) {
    // It reports to nobody: its parent's runtime waits for it.
    const { completion } = child;
    assert.deepEqual([completion!.delivered, completion!.delivery_error], [false, "no parent door"]);
    const [start] = child.events("session_start");
    assert.deepEqual([start!.spawned_by, start!.delegation_id], [run.sessionId, child.delegationId]);
    assert.equal(child.events("session_end")[0]!.exit_status, "ok");
  }
  assert.equal(await Deno.readTextFile(`${world.project.project}/workdir/${run.sessionId}/answers`), "the slow answer");
  await assertNothingLeft(world, run);
});

Deno.test("a capsule step fails with the reason, whoever gives it, and no step gets what a call would not", async () => {
  const allow = ["local/worker", "local/greedy", "local/absent", "local/twice"];
  await using world = await delegationWorld(boss(allow), [
    serving("worker"),
    serving("greedy", { capabilities: { network: { allow: ["api.example.com"] } } }),
    serving("twice"),
    { ...serving("twice"), version: "0.2.0" },
    serving("secret"),
  ]);
  const tries: readonly (readonly [string, JsonObject, RegExp])[] = [
    ["not allowed", { capsule: "secret", input: "x" }, /^capsule 'secret' is not in capabilities\.spawn\.allow$/],
    [
      "another scope",
      { capsule: "other/worker", input: "x" },
      /^capsule 'other\/worker' is not in capabilities\.spawn/,
    ],
    ["itself", { capsule: "boss", input: "x" }, /^capsule 'boss' is not in capabilities\.spawn\.allow$/],
    ["a path", { capsule: "../worker", input: "x" }, /is not in capabilities\.spawn\.allow$/],
    [
      "more than its parent holds",
      { capsule: "greedy", input: "x" },
      /^capabilities\.network\.allow: the child declares/,
    ],
    ["not installed", { capsule: "absent", input: "x" }, /^capsule 'local\/absent' is not installed$/],
    ["two versions", { capsule: "twice", input: "x" }, /0\.1\.0.*0\.2\.0/],
    ["its task fails", { capsule: "worker", input: JSON.stringify({ turns: [{ throws: "no luck" }] }) }, /./],
  ];
  const run = await world.run(plans(
    // Only what was started and failed is tried again: what was refused would be again.
    ...tries.map(([name, step], index) => {
      return plan(`p${index}`, [{ id: "x", retries: name === "its task fails" ? 0 : 5, ...step }]);
    }),
    plan("retried", [{
      id: "x",
      capsule: "worker",
      input: JSON.stringify({ turns: [{ throws: "no luck" }] }),
      retries: 1,
    }]),
  ));
  const all = reports(run);
  tries.forEach(([name, , message], index) => {
    assert.equal(all[index]!.failed_step, "x", name);
    assert.match(all[index]!.steps[0]!.error!, message, name);
    assert.equal(run.events("plan_step")[index]!.attempts, 1, name);
  });
  assert.deepEqual(outcomes(run), ["refused greedy", "failed worker", "failed worker", "failed worker"]);
  // A step with retries writes one pair an attempt.
  assert.equal(run.events("delegation_start").length, 3);
  assert.deepEqual(run.events("plan_step").at(-1)!.attempts, 2);
  await assertNothingLeft(world, run);
});

Deno.test("a step waits for an answer no longer than a delegation may take, and its child is ended", async () => {
  await using world = await delegationWorld(boss(["local/worker"]), [serving("worker")]);
  const run = await world.run(
    plans(plan("p", [{ id: "x", capsule: "worker", input: says("never", 60_000) }])),
    { MURMUR_DELEGATION_TIMEOUT_SECS: "1" },
  );
  const [report] = reports(run);
  assert.match(report!.steps[0]!.error!, /^no answer came within 1s/);
  assert.deepEqual(outcomes(run), ["timed_out worker"]);
  const [child] = world.children(run.trace);
  assert.equal(child!.completion!.delivery_error, "no parent door");
  assert.equal(child!.events("session_end")[0]!.exit_status, "canceled");
  await assertNothingLeft(world, run);
});

Deno.test("the daemon's bounds hold for plans: what is over them fails, the rest runs", async () => {
  await using world = await delegationWorld(boss(["local/worker"]), [serving("worker")], ["--max-concurrent", "2"]);
  const steps = Array.from({ length: 5 }, (_, at) => ({
    id: `s${at}`,
    capsule: "worker",
    input: says("done", 1_500),
    on_error: "continue",
  }));
  const run = await world.run(plans(plan("p", steps)));
  const [report] = reports(run);
  const failed = report!.steps.filter(({ status }) => status === "failed");
  assert.equal(report!.steps.filter(({ output }) => output === "done").length, 2);
  assert.equal(failed.length, 3);
  assert.ok(failed.every(({ error }) => error!.includes("--max-concurrent 2")), JSON.stringify(failed));
  await assertNothingLeft(world, run);
});

Deno.test("a canceled task ends its plan within a second wherever a child stands, and then the children", async () => {
  const faulty: JsonObject = { env: { allow: ["TEST_FAULT", "MURMUR_MUR_BINARY"] } };
  const steps = (delay: number): JsonObject[] => [
    { id: "x", capsule: "worker", input: says("never", delay), retries: 3, on_error: "continue" },
    { id: "y", capsule: "worker", input: says("never", delay) },
    { id: "after", capsule: "worker", input: says("never"), depends_on: ["x"] },
  ];
  // While it is asked for, the daemon stands still; amid a launch the children do before they have said anything; amid a
  // task they work.
  for (const phase of ["asked", "launch", "task"] as const) {
    await using world = await delegationWorld(boss(["local/worker"], { capabilities: faulty }), [
      serving("worker", { capabilities: faulty }),
    ]);
    const run = await world.start(
      { turns: [{ delayMs: phase === "asked" ? 1_000 : 0, calls: [plan("p", steps(60_000))] }, { text: "never" }] },
      phase === "task"
        ? {}
        : { main: FAULTY_MUR, env: phase === "launch" ? { TEST_FAULT: "worker:launch:SIGSTOP" } : {} },
    );
    let seen: readonly SeenProcess[] = [];
    if (phase === "asked") {
      world.daemon.child.kill("SIGSTOP");
      await run.traced("plan_step_start");
    } else {
      await until("both children run", () => (seen = childProcesses(run.pid)).length === 2);
    }
    const started = () => readTrace(run.records).filter(({ event_type }) => event_type === "delegation_start").length;
    if (phase === "task") await until("both have their tasks", () => started() === 2);
    await new Promise((resolve) => setTimeout(resolve, 500));
    const at = Date.now();
    run.kill("SIGTERM");
    const ended = await run.finish();
    if (phase === "asked") world.daemon.child.kill("SIGCONT");
    const [end] = ended.events("plan_end");
    assert.equal(end!.outcome, "canceled");
    const took = Number(end!.timestamp) - at;
    assert.ok(took < 1_000, `${phase}: ${took} ms`);
    assert.equal(ended.events("task_canceled")[0]!.phase, "plan");
    assert.deepEqual(ended.events("plan_step").map(({ status, attempts, error }) => [status, attempts, error]), [
      ["failed", 1, "the task running this plan was cancelled"],
      ["failed", 1, "the task running this plan was cancelled"],
    ]);
    for (const line of ended.events("delegation")) {
      assert.equal(line.reason, "the delegating task was cancelled", JSON.stringify(line));
      if (phase === "task") assert.equal(line.outcome, "terminated");
      assert.ok(line.timestamp! >= ended.events("task_canceled")[0]!.timestamp!);
    }
    if (phase === "task") {
      const ids = ended.events("delegation_start").map(({ delegation_id }) => delegation_id).toSorted();
      assert.deepEqual((ended.events("task_canceled")[0]!.delegation_ids as string[]).toSorted(), ids);
      assert.equal(ended.events("delegation").length, ids.length);
      for (const child of world.children(ended.trace)) assert.equal(child.completion!.status, "terminated");
    }
    if (phase !== "asked") await assertNothingLeft(world, ended, seen);
    else assert.deepEqual(ended.events("delegation_start"), []);
  }
});

Deno.test("policy hooks judge what a plan does as the same calls of the model, delegations among them", async () => {
  // By the name of the call: what a plan's text holds is escaped in the event of its submission.
  const deny = (when: string) => ({ at: "decision", when, answer: { tag: "deny", val: "the policy says so" } });
  await using world = await delegationWorld(
    boss(["local/worker"], {
      artifacts: [
        toolEntry("probe-tool"),
        hookEntry("hook-tool", {
          actions: {
            "on-tool-call": [
              deny('"toolName":"probe-tool"'),
              deny('"toolName":"touch"'),
              deny('"toolName":"delegate-task"'),
            ],
          },
        }),
        hookEntry("hook-shell", { actions: { "on-shell": [deny("echo never")] } }),
      ],
      capabilities: { shell: { allow: ["sh", "touch"] } },
    }),
    [serving("worker")],
  );
  const step = (more: JsonObject): JsonObject => ({ id: "x", retries: 2, ...more });
  const run = await world.run(plans(
    plan("tool", [step({ tool: "probe-tool", input: { operation: "write", path: "tool", text: "no" } })]),
    plan("call", [step({ shell: "touch call" })]),
    plan("command", [step({ shell: "sh -c 'echo never > shell'" })]),
    plan("capsule", [step({ capsule: "worker", input: says("no") })]),
    plan("reference", [
      { id: "task", shell: "sh -c 'echo go'" },
      step({ capsule: "local/worker", input: { objective: "$task.output" }, depends_on: ["task"] }),
    ]),
    delegate("worker", "no"),
  ));
  assert.equal(run.status, 0, run.stderr);
  const results = [...shownResults(run)];
  const refused = (target: string, hook: string) =>
    `the call of '${target}' was refused by hook '${hook}': the policy says so\n` +
    "It was not made. The same call is refused again unless it is changed.";
  const delegation = refused("delegate-task", "hook-tool");
  assert.deepEqual(results.pop(), { text: delegation, error: true });
  const ends = results.map(({ text }) => (JSON.parse(text.split("\n")[1]!) as Report).steps.at(-1)!);
  assert.deepEqual(ends.map(({ step_id, status, error }) => [step_id, status, error]), [
    ["x", "failed", refused("probe-tool", "hook-tool")],
    ["x", "failed", refused("touch", "hook-tool")],
    ["x", "failed", refused("sh", "hook-shell")],
    ["x", "failed", delegation],
    ["x", "failed", delegation],
  ]);
  // Asked once for each: a refusal is not tried again.
  assert.deepEqual(run.events("call_denied").map(({ event, target }) => `${event} ${target}`), [
    "on-tool-call probe-tool",
    "on-tool-call touch",
    "on-shell sh",
    ...Array.from({ length: 3 }, () => "on-tool-call delegate-task"),
  ]);
  assert.deepEqual(outcomes(run), []);
  assert.deepEqual([...Deno.readDirSync(`${world.project.project}/workdir/${run.sessionId}`)], []);
  await assertNothingLeft(world, run);
});
