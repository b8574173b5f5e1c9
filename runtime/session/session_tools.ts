/**
 * What answers a tool name in one session: native binaries, shell commands, skills and components, in the order of
 * spec components 8.2.
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import { isRootedError } from "../../base/rooted_error.ts";
import { RUNTIME_TOOL_NAMES } from "../../artifact/capability_policy.ts";
import type { InstalledTool } from "../agent/tool_inventory.ts";
import type { ShellCommandLine } from "../agent/agent_hooks.ts";
import { type CallScope, DispatchRefusal, type ResolvedTool, type ToolRun } from "../agent/tool_dispatch.ts";
import {
  type CallContext,
  ComponentFailure,
  type ComponentRuntime,
  type ComponentSpec,
  type Preopen,
  type ToolResult,
} from "../component/component_runtime.ts";
import type { FrameLog, TextFrame } from "./frame_log.ts";
import { InputTimeout } from "./task_registry.ts";

/** Runs operating-system processes for the session: the one seam to `sandbox/`. */
export interface CommandTools {
  /** One call of a shell tool. */
  shell(binary: string, input: JsonObject, scope: CallScope): Promise<ToolRun>;
  /** One shell step of a plan: the binary with its words. It has passed when the command ends with 0. */
  step(binary: string, args: readonly string[], line: string, scope: CallScope): Promise<ToolRun>;
  /** What {@linkcode CommandTools.shell} would run; `null` when the input holds no command. */
  describeShell(binary: string, input: JsonObject): ShellCommandLine | null;
  /** One call of a native tool. */
  native(tool: string, input: JsonObject, scope: CallScope): Promise<ToolRun>;
}

/** A tool the runtime itself provides. */
export type RuntimeTool = ResolvedTool["run"];

/** What resolving needs of the session. */
export interface SessionToolsOptions {
  /** Everything installed, by name. */
  readonly installed: readonly InstalledTool[];
  /** Bare names of the declared `runtime: tool` artifacts. */
  readonly allowlist: ReadonlySet<string>;
  readonly shellAllow: readonly string[];
  readonly specs: ReadonlyMap<string, ComponentSpec>;
  /** Skills whose pin a running capsule wrote. */
  readonly pulledSkills: ReadonlySet<string>;
  readonly components: ComponentRuntime;
  readonly commands: CommandTools;
  /** Tools of the runtime that this session has, by name. */
  readonly runtimeTools: ReadonlyMap<string, RuntimeTool>;
  readonly frames: FrameLog;
  /** Asks the person behind a task and waits for the answer (spec components 8.11). */
  readonly requestInput: (taskId: string, prompt: string) => Promise<string>;
  readonly output: NonNullable<CallContext["output"]> extends (stream: infer S, line: string) => void
    ? (artifact: string, stream: S, line: string) => void
    : never;
}

/** What a runtime-provided tool exists by; a call without it is told which declaration is missing. */
const DECLARED_BY: Readonly<Record<string, string>> = {
  "share-file": "exports.peer_files",
  "fetch-peer-file": "capabilities.peer_fetch",
  "delegate-task": "capabilities.spawn.allow",
  "submit-plan": "capabilities.plan.submit",
  "switch-driver": "control.agent_settings",
  "call-member": "membership in a formation",
  "end-without-answer": "membership in a formation",
};

/** Resolves the tools of one session. */
export class SessionTools {
  readonly #options: SessionToolsOptions;
  readonly #installed: ReadonlyMap<string, InstalledTool>;

  constructor(options: SessionToolsOptions) {
    this.#options = options;
    this.#installed = new Map(options.installed.map((tool) => [tool.name, tool]));
  }

  /** @throws {DispatchRefusal} when nothing of that name may be called. */
  resolve(name: string): ResolvedTool {
    const { allowlist, commands, runtimeTools, shellAllow, specs } = this.#options;
    const installed = this.#installed.get(name);
    const inputSchema = installed?.manifest.inputSchema ?? null;
    if (RUNTIME_TOOL_NAMES.includes(name)) {
      const run = runtimeTools.get(name);
      if (run !== undefined) return { kind: "runtime", inputSchema, run };
      throw new DispatchRefusal(`tool '${name}' is not available: it needs ${DECLARED_BY[name]}`);
    }
    const spec = specs.get(name);
    if (installed !== undefined && installed.manifest.implementation === "native" && spec === undefined) {
      if (allowlist.has(name)) {
        return { kind: "native", inputSchema, run: (input, scope) => commands.native(name, input, scope) };
      }
    }
    if (shellAllow.includes(name)) {
      return {
        kind: "shell",
        inputSchema,
        describe: (input) => commands.describeShell(name, input),
        run: (input, scope) => commands.shell(name, input, scope),
      };
    }
    const skill = installed?.skillText ?? null;
    if (skill !== null) return this.#skill(name, skill);
    if (spec !== undefined && allowlist.has(name) && spec.role === "tool") {
      return { kind: "wasm", inputSchema, run: (input, scope) => this.#callComponent(spec, input, scope) };
    }
    throw new DispatchRefusal(`tool '${name}' is not declared in manifest allowlist`);
  }

  /** A command line of a plan; its binary is one that may be run. */
  command(binary: string, args: readonly string[], line: string): ResolvedTool {
    const { commands } = this.#options;
    return {
      kind: "shell",
      inputSchema: null,
      args,
      // No interpreter reads it: these are the words that are run.
      describe: () => ({ binary, command: line, argv: [binary, ...args], script: null }),
      run: (_input, scope) => commands.step(binary, args, line, scope),
    };
  }

  #skill(name: string, text: string): ResolvedTool {
    return {
      kind: "skill",
      inputSchema: null,
      skillOrigin: this.#options.pulledSkills.has(name) ? "runtime" : "operator",
      run: () => Promise.resolve({ passed: true, text, metadata: [] }),
    };
  }

  async #callComponent(spec: ComponentSpec, input: JsonObject, scope: CallScope): Promise<ToolRun> {
    const { components, frames, output, requestInput } = this.#options;
    const { overDoor, taskId } = scope;
    const chunk = (type: TextFrame["type"]) => (text: string) =>
      frames.tell({ type, taskId, text, final: false }, scope);
    let timedOut = false;
    try {
      const result = await components.callTool(spec, { data: JSON.stringify(input), logPath: null }, {
        emitChunk: chunk("text"),
        emitThinkingChunk: chunk("thinking"),
        ...(overDoor
          ? {
            requestInput: (prompt) =>
              requestInput(taskId, prompt).catch((error) => {
                timedOut = error instanceof InputTimeout;
                throw error;
              }),
          }
          : {}),
        output: (stream, line) => output(spec.name, stream, line),
        signal: scope.signal,
      });
      // A guest may survive the refusal of its question; the attempt does not.
      const run = toolRun(result, spec.preopens);
      return timedOut ? { ...run, passed: false, inputTimedOut: true } : run;
    } catch (cause) {
      if (!timedOut || !(cause instanceof ComponentFailure)) throw cause;
      return { passed: false, text: cause.message, metadata: [], inputTimedOut: true };
    }
  }
}

/**
 * What the model sees of a component's result (spec components 8.4).
 *
 * @param preopens The directories it was given: a file it names is looked for there and nowhere else.
 */
export function toolRun(result: ToolResult, preopens: readonly Preopen[] = []): ToolRun {
  const { data, summary, dataPath } = result;
  return {
    passed: result.status === "passed",
    text: data ?? summary ?? "tool returned no data",
    answer: {
      data,
      summary,
      readData: (maxBytes) => dataPath === null ? null : readData(dataPath, preopens, maxBytes),
    },
    metadata: result.metadata,
    truncated: result.truncated,
  };
}

/** The file a component names as its data, as the component itself would open it; `null` when it cannot be read. */
function readData(path: string, preopens: readonly Preopen[], maxBytes: number): string | null {
  const named = preopens.find(({ guestPath }) => path.startsWith(`${guestPath}/`));
  const preopen = named ?? preopens.find(({ guestPath }) => guestPath === ".");
  if (preopen === undefined) return null;
  try {
    using file = preopen.root.openFile(named === undefined ? path : path.slice(named.guestPath.length + 1));
    const buffer = new Uint8Array(Math.min(maxBytes, file.stat().size));
    let length = 0;
    while (length < buffer.length) {
      const count = file.read(length, buffer.subarray(length));
      if (count === 0) break;
      length += count;
    }
    return new TextDecoder().decode(buffer.subarray(0, length));
  } catch (cause) {
    if (isRootedError(cause)) return null;
    throw cause;
  }
}
