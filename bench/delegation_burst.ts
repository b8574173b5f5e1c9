/**
 * Sixteen children of one session: started one after the other by one turn of `delegate-task` calls, and all at once by a
 * plan. Whether all of them finish, and how soon the parent's door answers `GetTask` meanwhile; its peer is a process that
 * does nothing but answer, asked at the same moments: what it takes is the machine's doing.
 *
 * @module
 */
import type { JsonObject } from "../base/json_value.ts";
import { firstPartyComponents } from "../scripts/build_components.ts";
import { doorCalls, message } from "../tests/support/door_session.ts";
import { installCapsule, readTrace } from "../tests/support/delegation_world.ts";
import { RoostDaemon } from "../tests/support/roost_daemon.ts";
import { benchProject } from "./bundled_mur.ts";
import type { BenchResult, Figure } from "./result.ts";

const CHILDREN = 16;
const VERSION = "0.1.0";
const DRIVER = "murmur-driver-scripted";

/** Between two questions to the door, in milliseconds. */
const ASK_MS = 20;

/** Longest wait for one burst. */
const BOUND_MS = 300_000;

function scripted(name: string, scripts: readonly JsonObject[], blocks: JsonObject): JsonObject {
  return {
    name,
    version: VERSION,
    artifacts: [{
      name: DRIVER,
      version: VERSION,
      runtime: "driver",
      gateway: { endpoint: "http://127.0.0.1:1", keyless: true },
    }],
    inference: { model: "m", driver: { artifact: DRIVER, config: { scripts } } },
    ...blocks,
  };
}

/** A child that works for a while, so that all of them run at the same time. */
const worker = (name: string, lifecycle: JsonObject) =>
  scripted(name, [{ when: "", turns: [{ delay_ms: 10_000, text: "done" }] }], { lifecycle });

const delegates: JsonObject = {
  turns: [
    {
      tool_calls: Array.from({ length: CHILDREN }, () => ({
        name: "delegate-task",
        input: { capsule: "worker", version: VERSION, task: "work" },
      })),
    },
    { text: "waiting" },
  ],
};

const plans: JsonObject = {
  turns: [
    {
      tool_calls: [{
        name: "submit-plan",
        input: {
          id: "burst",
          steps: Array.from(
            { length: CHILDREN },
            (_, index) => ({ id: `s${index}`, capsule: "helper", input: "work" }),
          ),
        },
      }],
    },
    { text: "done" },
  ],
};

const parent = scripted("boss", [
  { when: "[delegate-task]", turns: [{ text: "all back" }] },
  { when: "by calls", ...delegates },
  { when: "by plan", ...plans },
], {
  capabilities: { spawn: { allow: ["local/worker", "local/helper"] }, plan: { submit: true } },
  lifecycle: { task_acceptance: "queue", after_task: "sleep" },
});

export async function run(): Promise<BenchResult> {
  await using project = await benchProject(JSON.stringify(parent), [DRIVER]);
  for (const archive of (await firstPartyComponents([DRIVER])).values()) await project.run("install", "-g", archive);
  const capsules = [
    parent,
    worker("worker", { task_acceptance: "single", after_task: "exit" }),
    worker("helper", { task_acceptance: "queue", after_task: "sleep" }),
  ];
  for (const manifest of capsules) await installCapsule(project.home, manifest);
  await using daemon = await RoostDaemon.start(
    ["--spawn-allow", "local/boss", "--max-concurrent", String(CHILDREN), "--max-live-capsules", "64"],
    { home: project.home },
  );
  Deno.env.set("MURMUR_ROOST_URL", daemon.url);
  const peer = new Deno.Command(Deno.execPath(), {
    args: ["eval", "Deno.serve({port:0,onListen:({port})=>console.log(port)},()=>Response.json({}))"],
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const session = project.command("run", "--json").spawn();
  session.stderr.cancel().catch(() => {});
  try {
    const ready = JSON.parse(await firstLine(session.stdout)) as { readonly url: string; readonly session_id: string };
    const port = Number(ready.url.slice(ready.url.lastIndexOf(":") + 1));
    const records = `${project.home}/.murmur/records${project.project}/workdir/${ready.session_id}`;
    const peerUrl = `http://localhost:${await firstLine(peer.stdout)}`;
    return {
      name: `${CHILDREN} children of one session`,
      figures: [
        ...await burst(port, records, peerUrl, "by calls"),
        ...await burst(port, records, peerUrl, "by plan"),
      ],
    };
  } finally {
    Deno.env.delete("MURMUR_ROOST_URL");
    session.kill("SIGTERM");
    peer.kill("SIGKILL");
    await Promise.all([session.status, peer.status]);
  }
}

async function burst(port: number, records: string, peerUrl: string, how: string): Promise<Figure[]> {
  const door = doorCalls(port);
  const before = outcomes(records).length;
  const begun = performance.now();
  const sent = await door.rpc("SendMessage", message(how));
  const id: string = sent.result.task.id;
  const asked: number[] = [];
  const peers: number[] = [];
  const askPeer = async () => {
    const at = performance.now();
    await (await fetch(peerUrl)).text();
    peers.push(performance.now() - at);
  };
  for (;;) {
    const at = performance.now();
    const peer = askPeer();
    const { result } = await door.rpc("GetTask", { id });
    asked.push(performance.now() - at);
    await peer;
    const state: string = result.status.state;
    if (state !== "TASK_STATE_WORKING" && state !== "TASK_STATE_SUBMITTED") break;
    if (performance.now() - begun > BOUND_MS) throw new Error(`the burst ${how} did not end`);
    await new Promise((resolve) => setTimeout(resolve, ASK_MS));
  }
  const ended = outcomes(records).slice(before).filter((outcome) => outcome === "ok" || outcome === "completed");
  const quantile = (times: number[], part: number) =>
    times.toSorted((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * part))]!;
  return [
    { what: `${how}: children that did not finish`, value: CHILDREN - ended.length, unit: "", atMost: 0 },
    { what: `${how}: until all had finished`, value: (performance.now() - begun) / 1_000, unit: "s" },
    { what: `${how}: GetTask meanwhile, median of ${asked.length}`, value: quantile(asked, 0.5), unit: "ms" },
    { what: `${how}: GetTask meanwhile, p99`, value: quantile(asked, 0.99), unit: "ms", atMost: 100 },
    { what: `${how}: its peer at the same moments, p99`, value: quantile(peers, 0.99), unit: "ms" },
  ];
}

function outcomes(records: string): unknown[] {
  return readTrace(records).filter(({ event_type }) => event_type === "delegation").map(({ outcome }) => outcome);
}

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  while (!text.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the parent did not start");
    text += value;
  }
  void (async () => {
    while (!(await reader.read()).done);
  })();
  return text.slice(0, text.indexOf("\n"));
}
