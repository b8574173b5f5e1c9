/**
 * A real `mur run` that goes on while a test talks to it.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import type { AgentProject, AgentRun } from "./agent_project.ts";
import { type MurOptions, spawnMur } from "./mur_process.ts";
import { until } from "./process_tree.ts";

/** A run that serves. */
export interface ServingRun {
  readonly pid: number;
  readonly sessionId: string;
  readonly url: string;
  readonly records: string;
  kill(signal: Deno.Signal): void;
  /** Waits until the trace has a line of this kind. */
  traced(eventType: string): Promise<void>;
  /** Waits for its end. */
  finish(): Promise<AgentRun>;
}

/** Starts `mur run` and waits until its door serves. */
export async function startRun(
  project: AgentProject,
  task: JsonObject | null,
  args: readonly string[] = [],
  options: Pick<MurOptions, "env" | "main" | "under"> = {},
): Promise<ServingRun> {
  const given = task === null ? [] : ["--task", JSON.stringify(task)];
  const child = spawnMur(["run", ...given, ...args], { cwd: project.project, home: project.home, ...options });
  const [watched, collected] = child.stdout.tee();
  const stdout = new Response(collected).text();
  const stderr = new Response(child.stderr).text();
  let text = "";
  const reader = watched.pipeThrough(new TextDecoderStream()).getReader();
  while (!/^session: .*\n/m.test(text)) {
    const { value, done } = await reader.read();
    if (done) assert.fail(`the run ended before it served: ${await stderr}`);
    text += value;
  }
  // The rest is read without being kept, so that the other branch goes on.
  (async () => {
    while (!(await reader.read()).done);
  })();
  const session = /^session: (ses_[0-9a-f]+)$/m.exec(text)![1]!;
  const records = `${project.murmur}/records${project.project}/workdir/${session}`;
  return {
    pid: child.pid,
    sessionId: session,
    url: /^murmur: url (.*)$/m.exec(text)![1]!,
    records,
    kill: (signal) => child.kill(signal),
    traced: (eventType) =>
      until(
        `${eventType} in the trace`,
        async () => (await Deno.readTextFile(`${records}/trace.jsonl`)).includes(`{"event_type":"${eventType}"`),
      ),
    async finish() {
      const { code, signal } = await child.status;
      return await project.recordOf({ status: code, signal, stdout: await stdout, stderr: await stderr });
    },
  };
}
