/**
 * Projects that `mur run` can run at once: a home with artifacts installed and translated, copied from one that is made
 * once a checkout, and manifests around a driver that does what its task says (`end_to_end/components/program_driver.ts`).
 *
 * @module
 */
import type { JsonObject, JsonValue } from "../../base/json_value.ts";
import { type Finished, type MurOptions, type Sandbox, sandbox } from "./mur_process.ts";
import { preparedHome } from "./prepared_home.ts";

/** A line of a trace. */
export type TraceLine = JsonObject & { readonly event_type: string; readonly event_id: string };

/** A finished `mur run`. */
export interface AgentRun extends Finished {
  /** `null` when the launch was refused before there was one. */
  readonly sessionId: string | null;
  /** Records directory; empty without a session. */
  readonly records: string;
  /** Lines of its trace, empty when there is none. */
  readonly trace: readonly TraceLine[];
  /** Bytes of the trace. */
  readonly traceText: string;
  /** `out/result.txt`; `null` when there is none. */
  readonly result: string | null;
  /** Lines of one kind. */
  events(type: string): readonly TraceLine[];
}

export interface RunSpec extends Partial<MurOptions> {
  /** `--task`; an object is a program for the program driver. */
  readonly task?: string | JsonObject;
  readonly args?: readonly string[];
  /** Work folder given with `--workdir`, for finding the records. */
  readonly workdir?: string;
}

/** A project whose home has the artifacts of the tests. */
export interface AgentProject extends Sandbox {
  /** `~/.murmur` of its home. */
  readonly murmur: string;
  run(spec?: RunSpec): Promise<AgentRun>;
  /** What a session that printed `session: …` left. */
  recordOf(finished: Finished, workdir?: string): Promise<AgentRun>;
}

/** Makes a project with a manifest, from {@linkcode capsule} or as text. */
export async function agentProject(manifest: JsonObject | string): Promise<AgentProject> {
  const box = await sandbox();
  const { success } = await new Deno.Command("cp", { args: ["-a", `${await preparedHome()}/.murmur`, box.home] })
    .output();
  if (!success) throw new Error("the prepared home cannot be copied");
  await box.write("murmur.yaml", typeof manifest === "string" ? manifest : JSON.stringify(manifest, null, 2));
  const murmur = `${box.home}/.murmur`;
  const recordOf = async (finished: Finished, workdir?: string): Promise<AgentRun> => {
    const said = finished.stdout + finished.stderr;
    const sessionId = /(?:^session: |"session_id":")(ses_[0-9a-f]{32})\b/m.exec(said)?.[1] ?? null;
    const root = workdir === undefined ? `${box.project}/workdir` : workdir;
    const records = sessionId === null ? "" : `${murmur}/records${root}/${sessionId}`;
    const traceText = records === "" ? "" : await Deno.readTextFile(`${records}/trace.jsonl`).catch(() => "");
    const trace = traceText.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as TraceLine);
    return {
      ...finished,
      sessionId,
      records,
      trace,
      traceText,
      result: records === "" ? null : await Deno.readTextFile(`${records}/out/result.txt`).catch(() => null),
      events: (type) => trace.filter(({ event_type }) => event_type === type),
    };
  };
  return {
    ...box,
    [Symbol.asyncDispose]: box[Symbol.asyncDispose],
    murmur,
    recordOf,
    async run({ task, args = [], workdir, ...options } = {}) {
      const finished = await box.mur([
        "run",
        ...(task === undefined ? [] : ["--task", typeof task === "string" ? task : JSON.stringify(task)]),
        ...(workdir === undefined ? [] : ["--workdir", workdir]),
        ...args,
      ], options);
      return await recordOf(finished, workdir);
    },
  };
}

/** A driver's entry; keyless, since the drivers of the tests send nothing. */
export function driverEntry(name: string): JsonObject {
  return { name, version: "1.0.0", runtime: "driver", gateway: { endpoint: "http://127.0.0.1:9", keyless: true } };
}

/** Entry of a tool made for the tests. */
export function toolEntry(name: string, more: JsonObject = {}): JsonObject {
  return { name, version: "1.0.0", runtime: "tool", ...more };
}

/** Entry of a hook made for the tests; `config` says what it does (`end_to_end/components/probe_hook.ts`). */
export function hookEntry(name: string, config: JsonObject | null, more: JsonObject = {}): JsonObject {
  return { name, version: "1.0.0", runtime: "hook", ...(config === null ? {} : { config }), ...more };
}

/** Blocks of a manifest; `artifacts` are put behind the driver's. */
export interface CapsuleBlocks {
  readonly name?: string;
  readonly driver?: string;
  readonly artifacts?: readonly JsonObject[];
  readonly capabilities?: JsonObject;
  readonly inference?: JsonObject;
  readonly lifecycle?: JsonObject;
  readonly [block: string]: JsonValue | undefined;
}

/** A manifest of a capsule that ends after its launch task, with the program driver. */
export function capsule(blocks: CapsuleBlocks = {}): JsonObject {
  const { name = "probe", driver = "program-driver", artifacts = [], inference = {}, lifecycle = {}, ...rest } = blocks;
  return {
    name,
    version: "0.1.0",
    artifacts: [driverEntry(driver), ...artifacts],
    lifecycle: { task_acceptance: "none", ...lifecycle },
    inference: { transport: "http", model: "m-1", driver: { artifact: driver }, ...inference },
    ...Object.fromEntries(Object.entries(rest).filter(([, block]) => block !== undefined)) as JsonObject,
  };
}

/** A program of tool calls, one turn each, that ends with what they gave. */
export function callsThenResults(...calls: readonly JsonObject[]): JsonObject {
  return { turns: [...calls.map((call) => ({ calls: [call] })), { show: "results" }] };
}

/** What {@linkcode callsThenResults} showed. */
export interface ShownResult {
  readonly text: string;
  readonly error: boolean;
}

/** Reads the results a run ended with. */
export function shownResults(run: Pick<AgentRun, "result">): readonly ShownResult[] {
  return JSON.parse(run.result ?? "[]") as readonly ShownResult[];
}
