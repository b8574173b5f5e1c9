/**
 * Native tools: one JSON object in, one JSON object out, a process each (spec components 8.5).
 *
 * @module
 */
import { MurError, reasonOf } from "../base/errors.ts";
import { isJsonObject } from "../base/json_value.ts";
import { composedRootFailure } from "./composed_root.ts";
import type { CommandEnd, RunningCommand } from "./running_command.ts";

/** A native tool's answer. */
export interface NativeToolResult {
  readonly status: "passed" | "failed" | "error";
  readonly summary: string | null;
  readonly data: string | null;
}

/** Most bytes of each stream of a native tool. */
export const NATIVE_OUTPUT_LIMIT = 67_108_864;

/** What a native tool reads: the call's input as JSON text in `data`, and no log. */
export function nativeToolInput(input: unknown): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(JSON.stringify({ data: JSON.stringify(input), log_path: null }));
}

/** Reads what a tool wrote. Pure. */
export function readNativeToolOutput(
  name: string,
  output: { readonly stdout: string; readonly stderr: string; readonly exitCode: number; readonly exit: string },
): NativeToolResult {
  const stdout = output.stdout.trim();
  const byExit = output.exitCode === 0 ? "passed" : "error";
  if (stdout === "") {
    const data = output.stderr === "" ? null : output.stderr;
    return { status: byExit, summary: `native tool '${name}' exited with ${output.exit}`, data };
  }
  let json: unknown;
  try {
    json = JSON.parse(stdout);
  } catch {
    return { status: byExit, summary: `native tool '${name}' completed`, data: output.stdout };
  }
  const { status, summary, data } = isJsonObject(json) ? json : { status: null, summary: null, data: null };
  return {
    status: status === "passed" || status === "failed" ? status : "error",
    summary: typeof summary === "string" ? summary : null,
    data: typeof data === "string" ? data : data === null || data === undefined ? null : JSON.stringify(data),
  };
}

/** How a command ended, in words. */
export function exitText(end: Pick<CommandEnd, "exitCode" | "signal">): string {
  return end.signal === null ? `exit status ${end.exitCode}` : `signal ${end.signal}`;
}

/** What a native tool is started with. */
export interface NativeToolStart {
  readonly input: Uint8Array<ArrayBuffer>;
  /** Bytes of each stream held in memory. */
  readonly keep: number;
}

/**
 * Runs a tool once. It has no deadline; whoever cancels it aborts the signal, which kills it.
 *
 * @param start Starts it behind its walls.
 * @throws {MurError} `E-RUN-014` when the root of a sealed session can't be composed, `E-IO-003` when it can't be run for
 * another reason or wrote more than can be taken.
 */
export async function runNativeTool(
  name: string,
  input: unknown,
  start: (start: NativeToolStart) => Promise<RunningCommand>,
  signal: AbortSignal,
): Promise<NativeToolResult> {
  let command: RunningCommand;
  try {
    command = await start({ input: nativeToolInput(input), keep: NATIVE_OUTPUT_LIMIT });
  } catch (cause) {
    throw new MurError("E-IO-003", `failed to spawn native tool '${name}': ${reasonOf(cause)}`, { cause });
  }
  const kill = () => command.kill();
  signal.addEventListener("abort", kill);
  if (signal.aborted) kill();
  const end = await command.end.finally(() => signal.removeEventListener("abort", kill));
  const { failure, stdout, stderr } = end;
  stdout.close();
  stderr.close();
  if (failure !== null) {
    throw composedRootFailure(failure) ??
      new MurError("E-IO-003", `failed to spawn native tool '${name}': ${failure.stage}: ${failure.reason}`);
  }
  if (stdout.overflowed || stderr.overflowed) {
    throw new MurError("E-IO-003", `native tool '${name}' wrote more than ${NATIVE_OUTPUT_LIMIT} bytes`);
  }
  return readNativeToolOutput(name, {
    stdout: stdout.text(),
    stderr: stderr.text(),
    exitCode: end.exitCode,
    exit: exitText(end),
  });
}
