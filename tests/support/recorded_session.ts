/**
 * Recorded sessions for the commands that read traces: lines by hand, short where a test does not care.
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import { murmurHomeAt, recordsGroup } from "../../base/murmur_home.ts";

/** A session id minted at a time, Unix milliseconds; `tail` tells those of one time apart. */
export function sessionIdAt(ms: number, tail = 0): string {
  return `ses_${ms.toString(16).padStart(12, "0")}7${tail.toString(16).padStart(19, "0")}`;
}

/** What one turn did. */
export interface RecordedTurn {
  /** Hashes of system prompt, tools and messages; none under `trace.capture: none`. */
  readonly hashes?: readonly [system: string, tools: string, ...messages: string[]];
  /** Tool calls: how long each took, and whether it went well. */
  readonly tools?: readonly (readonly [ms: number, status: "ok" | "error", path?: string])[];
  /** Shell commands: exit code and how long each took. */
  readonly shells?: readonly (readonly [code: number, ms: number])[];
}

export interface RecordedSession {
  readonly turns?: readonly RecordedTurn[];
  readonly durationMs?: number;
  readonly tokens?: readonly [input: number, output: number];
  readonly exitStatus?: string;
  /** Turns and duration of each task. */
  readonly tasks?: readonly (readonly [turns: number, ms: number])[];
  readonly compactionAtTurn?: number;
  /** Without it the session has not ended. */
  readonly ended?: boolean;
}

/** Lines of a trace. */
export function recordedTrace(id: string, session: RecordedSession = {}): string {
  const { turns = [], durationMs = 1_000, tokens = [100, 10], exitStatus = "ok", tasks = [], ended = true } = session;
  const lines: JsonObject[] = [
    {
      event_type: "session_start",
      session_id: id,
      capsule_name: "demo",
      capsule_version: "1",
      model: "m",
      max_turns: 9,
    },
  ];
  turns.forEach(({ hashes, tools = [], shells = [] }, turn) => {
    const [system, schemas, ...messages] = hashes ?? [];
    lines.push({
      event_type: "inference",
      turn,
      decision: "tool_call",
      ...(system === undefined ? {} : { system_sha: system, tools_sha: schemas!, message_shas: messages }),
    });
    for (const [ms, status, path] of tools) {
      lines.push({
        event_type: "tool_call",
        turn,
        tool_name: "fetch",
        duration_ms: ms,
        status,
        ...(path === undefined ? {} : { input: { path }, state_effect: "read" }),
      });
    }
    for (const [code, ms] of shells) {
      lines.push({ event_type: "shell", turn, binary: "sh", exit_code: code, duration_ms: ms });
    }
  });
  if (session.compactionAtTurn !== undefined) {
    lines.push({ event_type: "compaction", turn: session.compactionAtTurn, tokens_before: 9, tokens_after: 1 });
  }
  tasks.forEach(([count, ms], index) =>
    lines.push({
      event_type: "task_end",
      task_id: `tsk_${index}`,
      exit_status: "ok",
      duration_ms: ms,
      turns: count,
      input_tokens: 50,
      output_tokens: 5,
    })
  );
  if (ended) {
    lines.push({
      event_type: "session_end",
      total_turns: turns.length,
      total_input_tokens: tokens[0],
      total_output_tokens: tokens[1],
      total_tool_calls: turns.flatMap(({ tools = [] }) => tools).length,
      total_shell_calls: turns.flatMap(({ shells = [] }) => shells).length,
      duration_ms: durationMs,
      exit_status: exitStatus,
    });
  }
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

/** Writes a session's records into the group of a work folder and answers its directory. */
export async function recordSession(
  home: string,
  workdir: string,
  id: string,
  session: RecordedSession = {},
): Promise<string> {
  const directory = `${recordsGroup(murmurHomeAt(home), workdir)}/${id}`;
  await Deno.mkdir(directory, { recursive: true, mode: 0o700 });
  await Deno.writeTextFile(`${directory}/trace.jsonl`, recordedTrace(id, session));
  return directory;
}
