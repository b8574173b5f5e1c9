/**
 * `mur stop`: ends one running session (spec cli 13.2): its door is asked first, then its process is signalled.
 *
 * @module
 */
import { MurError, reasonOf } from "../base/errors.ts";
import { isJsonObject, type JsonValue } from "../base/json_value.ts";
import { readRecordProcess, removeRunningRecord, type RunningRecord } from "../base/running_record.ts";
import type { CliContext } from "./context.ts";
import { doorTrouble, doorWords } from "../base/door_client.ts";
import { rpcError } from "./door_error.ts";
import { residueLines } from "./residue_lines.ts";
import { doorOf, doorProblem, findRunningSession } from "./running_session.ts";

/** Flags of `mur stop`. */
export interface StopFlags {
  /** Seconds between SIGTERM and SIGKILL; 0 escalates at once. */
  readonly timeout?: number;
}

const DEFAULT_TIMEOUT = 10;

/** What the door said when it was asked to stop. */
interface Asked {
  readonly canceled: readonly string[];
  /** What is left running; a reason when nobody could tell. */
  readonly residue: readonly JsonValue[] | { readonly unknown: string };
}

/** Runs the command. @throws {MurError} `E-RUN-022`, `E-RUN-024`, `E-RUN-028`. */
export async function stop(context: CliContext, flags: StopFlags, address: string): Promise<number> {
  if (address.startsWith("frm_")) {
    throw new MurError("E-RUN-022", `'${address}' is a formation, which this version of mur does not serve`, {
      hint: "stop its members one by one; mur ps lists them",
    });
  }
  const { id, record, unverified } = await findRunningSession(address, context);
  if (unverified !== null) throw notEnded(id, unverified);
  const trace = `${record.records_dir}/trace.jsonl`;
  const before = await fileSize(trace);
  const asked = await askToStop(id, record, context);
  const unended = before === null ? asked.canceled : await waitForEnds(asked.canceled, trace, before, record, context);
  const signal = await endProcess(id, record, (flags.timeout ?? DEFAULT_TIMEOUT) * 1_000, context);
  removeRunningRecord(context.absoluteHome().running, id);

  context.stdout.line(`stopped: ${id}`);
  context.stdout.line(`capsule: ${record.capsule_name}@${record.capsule_version}`);
  context.stdout.line(`signal:  ${signal ?? "none — the process had already exited"}`);
  for (const task of asked.canceled) context.stdout.line(`canceled: ${task}`);
  for (const task of unended) {
    context.stdout.line(`unended: ${task}  the trace does not record how this task ended`);
  }
  for (const line of residuePart(asked.residue)) context.stdout.line(line);
  return 0;
}

function residuePart(residue: Asked["residue"]): string[] {
  if ("unknown" in residue) return [`residue: unknown — the capsule could not be asked: ${residue.unknown}`];
  const lines = residueLines(residue);
  return lines.length > 0 ? lines : ["residue: nothing else was left running"];
}

function notEnded(id: string, reason: string): MurError {
  return new MurError("E-RUN-024", `${id} could not be ended: ${reason}`);
}

/** Asks the door, after it has answered for that session: whoever else took its port must not be stopped. */
async function askToStop(id: string, record: RunningRecord, context: CliContext): Promise<Asked> {
  const unknown = (reason: string): Asked => ({ canceled: [], residue: { unknown: reason } });
  const door = doorOf(record, context);
  if (door === null) return unknown(record.url === null ? "a script capsule has no door" : "its record names no door");
  const problem = await doorProblem(id, door);
  if (problem !== null) return unknown(problem);
  try {
    const answer = await door.call("murmur.StopSession", {}, { silenceMs: context.bounds.doorCard });
    if (!answer.ok) return unknown(rpcError(answer.failure, "murmur.StopSession").message);
    const { result } = answer;
    if (!isJsonObject(result) || result.session_id !== id) return unknown("its answer names another session");
    const list = (value: JsonValue | undefined): readonly JsonValue[] => Array.isArray(value) ? value : [];
    return {
      canceled: list(result.canceled).filter((task) => typeof task === "string").map(doorWords),
      residue: list(result.residue),
    };
  } catch (error) {
    return unknown(doorTrouble(error));
  }
}

async function fileSize(path: string): Promise<number | null> {
  try {
    return (await Deno.stat(path)).size;
  } catch {
    return null;
  }
}

/** Tasks whose end stands in these lines of a trace: a `task_end`, or a `task_canceled` while it was queued. */
export function endedTasks(text: string): string[] {
  return text.split("\n").flatMap((line) => {
    let event: unknown;
    try {
      event = JSON.parse(line);
    } catch {
      // Half a line: what follows it is read with the next look.
      return [];
    }
    if (!isJsonObject(event) || typeof event.task_id !== "string") return [];
    const ended = event.event_type === "task_end" ||
      (event.event_type === "task_canceled" && event.phase === "queued");
    return ended ? [event.task_id] : [];
  });
}

/** Waits until the trace tells how each task ended, the bound is over, or the process is gone. Answers those left. */
async function waitForEnds(
  tasks: readonly string[],
  trace: string,
  from: number,
  record: RunningRecord,
  context: CliContext,
): Promise<readonly string[]> {
  const left = new Set(tasks);
  const deadline = Date.now() + context.bounds.stopTaskEnds;
  while (left.size > 0) {
    const gone = readRecordProcess(record).state === "gone";
    for (const task of endedTasks(await textFrom(trace, from))) left.delete(task);
    if (left.size === 0 || gone || Date.now() >= deadline) break;
    await pause(context.bounds.stopPoll);
  }
  return [...left];
}

async function textFrom(path: string, offset: number): Promise<string> {
  try {
    using file = await Deno.open(path);
    await file.seek(offset, Deno.SeekMode.Start);
    return await new Response(file.readable).text();
  } catch {
    return "";
  }
}

/** Ends the process and answers the signal that did it; `null` when it was gone before. */
async function endProcess(
  id: string,
  record: RunningRecord,
  timeoutMs: number,
  context: CliContext,
): Promise<"SIGTERM" | "SIGKILL" | null> {
  if (!signalProcess(id, record, "SIGTERM")) return null;
  if (await waitUntilGone(record, timeoutMs, context)) return "SIGTERM";
  if (!signalProcess(id, record, "SIGKILL")) return "SIGTERM";
  if (await waitUntilGone(record, context.bounds.stopKilled, context)) return "SIGKILL";
  const seconds = Math.round(context.bounds.stopKilled / 1_000);
  throw notEnded(id, `pid ${record.pid} was still running ${seconds} seconds after SIGKILL`);
}

/** Signals the process that wrote the record and no other; false when it is gone. @throws {MurError} `E-RUN-024`. */
function signalProcess(id: string, record: RunningRecord, signal: "SIGTERM" | "SIGKILL"): boolean {
  const reading = readRecordProcess(record);
  if (reading.state === "gone") return false;
  if (reading.state === "unverified") throw notEnded(id, reading.reason);
  try {
    Deno.kill(record.pid, signal);
    return true;
  } catch (error) {
    if (readRecordProcess(record).state === "gone") return false;
    throw notEnded(id, `${signal} to pid ${record.pid} was refused: ${reasonOf(error)}`);
  }
}

async function waitUntilGone(record: RunningRecord, boundMs: number, context: CliContext): Promise<boolean> {
  const deadline = Date.now() + boundMs;
  for (;;) {
    if (readRecordProcess(record).state === "gone") return true;
    const left = deadline - Date.now();
    if (left <= 0) return false;
    await pause(Math.min(left, context.bounds.stopPoll));
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
