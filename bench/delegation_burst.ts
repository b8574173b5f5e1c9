/**
 * Sixteen children of one session: started one after the other by one turn of `delegate-task` calls, and all at once by a
 * plan. Whether all of them finish, and how soon the parent's door answers `GetTask` meanwhile; its peer is a process that
 * does nothing but answer, asked at the same moments: what it takes is the machine's doing.
 *
 * @module
 */
import { ArtifactStore } from "../artifact/store.ts";
import { writeZip } from "../artifact/zip_writer.ts";
import { DoorClient } from "../base/door_client.ts";
import type { JsonObject, JsonValue } from "../base/json_value.ts";
import { denoDirectory } from "../base/program.ts";
import { DEFAULT_TIME_BOUNDS } from "../base/time_bounds.ts";
import { firstPartyComponents } from "../scripts/build_components.ts";
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
  for (const manifest of capsules) await install(project.home, manifest);
  const daemon = startDaemon(project.home);
  Deno.env.set("MURMUR_ROOST_URL", await daemon.url);
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
    for (const [child, signal] of [[session, "SIGTERM"], [peer, "SIGKILL"], [daemon.child, "SIGKILL"]] as const) {
      try {
        child.kill(signal);
      } catch {
        // It has ended, and what failed because of it is the error to tell.
      }
    }
    await Promise.all([session, peer, daemon.child].map(({ status }) => status));
  }
}

async function burst(port: number, records: string, peerUrl: string, how: string): Promise<Figure[]> {
  const door = new DoorClient({ host: "localhost", port, token: null }, DEFAULT_TIME_BOUNDS);
  const call = async (method: string, params: JsonObject): Promise<JsonObject> => {
    const answer = await door.call(method, params);
    if (!answer.ok) throw new Error(`${method}: ${answer.failure.message}`);
    return answer.result as JsonObject;
  };
  const before = outcomes(records).length;
  const begun = performance.now();
  const sent = await call("SendMessage", {
    message: { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text: how }] },
  });
  const id = (sent.task as { readonly id: string }).id;
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
    const task = await call("GetTask", { id });
    asked.push(performance.now() - at);
    await peer;
    const { state } = task.status as { readonly state: string };
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

/** Outcomes of the delegations in a session's trace. */
function outcomes(records: string): JsonValue[] {
  return Deno.readTextFileSync(`${records}/trace.jsonl`).split("\n")
    .filter((line) => line.startsWith('{"event_type":"delegation",'))
    .map((line) => (JSON.parse(line) as JsonObject).outcome!);
}

/** Installs a capsule, as `mur install -g` of its archive would. */
async function install(home: string, manifest: JsonObject): Promise<void> {
  const text = JSON.stringify({ ...manifest, runtime: "capsule", execution: "static" });
  await new ArtifactStore(`${home}/.murmur/artifacts`).put({
    metadata: {
      name: String(manifest.name),
      version: VERSION,
      kind: "static",
      role: "capsule",
      platforms: [],
      description: null,
      tags: [],
      contracts: null,
    },
    platform: null,
    bytes: await writeZip([{ name: "murmur.yaml", bytes: new TextEncoder().encode(text) }]),
  }, "install");
}

function startDaemon(home: string): { readonly child: Deno.ChildProcess; readonly url: Promise<string> } {
  const bounds = ["--max-concurrent", String(CHILDREN), "--max-live-capsules", "64"];
  const entry = decodeURIComponent(new URL("../roost/main.ts", import.meta.url).pathname);
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "-A", entry, "--port", "0", "--spawn-allow", "local/boss", ...bounds],
    env: { HOME: home, DENO_DIR: denoDirectory()! },
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const listening = Promise.withResolvers<string>();
  void (async () => {
    let said = "";
    for await (const piece of child.stderr.pipeThrough(new TextDecoderStream())) {
      said += piece;
      const port = /listening on 127\.0\.0\.1:(\d+)\n/.exec(said)?.[1];
      if (port !== undefined) listening.resolve(`http://127.0.0.1:${port}`);
    }
    listening.reject(new Error(`mur-roost did not start: ${said}`));
  })();
  return { child, url: listening.promise };
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
