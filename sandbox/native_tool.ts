/**
 * Native tools: one JSON object in, one JSON object out, a process each (spec components 8.5).
 *
 * @module
 */
import { MurError, reasonOf } from "../base/errors.ts";
import { isJsonObject } from "../base/json_value.ts";
import { type CommandEnd, type CommandStart, type RunningCommand, startCommand } from "./command_runner.ts";

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

/** Where and how a native tool runs. */
export type NativeToolStart = Omit<CommandStart, "args" | "input" | "keep" | "spoolDir">;

/** A native tool that runs. */
export interface RunningNativeTool {
  /** @throws {MurError} `E-IO-003` when it could not be run, or wrote more than can be taken. */
  readonly result: Promise<NativeToolResult>;
  readonly command: RunningCommand;
}

/**
 * Runs a tool once. It has no deadline; whoever cancels it kills the command.
 *
 * @throws {MurError} `E-IO-003` when the helper can't be started.
 */
export function startNativeTool(name: string, input: unknown, start: NativeToolStart): RunningNativeTool {
  let command: RunningCommand;
  try {
    command = startCommand({
      ...start,
      args: [],
      input: nativeToolInput(input),
      keep: NATIVE_OUTPUT_LIMIT,
      spoolDir: null,
    });
  } catch (cause) {
    throw new MurError("E-IO-003", `failed to spawn native tool '${name}': ${reasonOf(cause)}`, { cause });
  }
  const result = command.end.then((end) => {
    const { failure, stdout, stderr } = end;
    stdout.close();
    stderr.close();
    if (failure !== null) {
      throw new MurError("E-IO-003", `failed to spawn native tool '${name}': ${failure.stage}: ${failure.reason}`);
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
  });
  return { result, command };
}
