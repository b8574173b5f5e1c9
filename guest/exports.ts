/**
 * What a component exports for its role: each call runs the author's module to completion and answers with a result,
 * whatever was thrown.
 *
 * @module
 */
import { type Capsule, capsuleContext } from "./capsule.ts";
import { console } from "./console.ts";
import { type Driver, driverContext, type DriverRequest, type DriverResponse } from "./driver.ts";
import { runToCompletion } from "./event_loop.ts";
import { type Hook, HOOK_FUNCTIONS, hookContext, type HookOutput, type NewMessage, witMessage } from "./hook.ts";
import { wellFormed, type WitToolInput, type WitToolResult } from "./host.ts";
import { failureResult, ToolFailure, toResult } from "./result.ts";
import { type Tool, toolContext } from "./tool.ts";

/** Evaluates the author's module and gives its default export. Called once per instance, at its first call. */
export type LoadModule = () => PromiseLike<{ readonly default?: unknown }>;

async function loaded<T>(load: LoadModule, methods: readonly string[], declared: string): Promise<T> {
  const value = (await load()).default;
  if (typeof value !== "object" || value === null || !methods.some((method) => method in value)) {
    throw new TypeError(`the module has no default export made by ${declared}`);
  }
  return value as T;
}

function answered(work: () => Promise<WitToolResult>): WitToolResult {
  try {
    return runToCompletion(work);
  } catch (error) {
    // The result carries a failure's message; where an unexpected error came from goes to the log.
    if (!(error instanceof ToolFailure)) console.error(error);
    return failureResult(error);
  }
}

/** `murmur:tool/run` of a tool. */
export function toolExport(load: LoadModule): { run(input: WitToolInput): WitToolResult } {
  return {
    run: (input) =>
      answered(async () => {
        const tool = await loaded<Tool<unknown>>(load, ["run"], "defineTool");
        const data: unknown = input.data === null || input.data === "" ? {} : JSON.parse(input.data);
        return toResult(await tool.run(data, toolContext(input.logPath)));
      }),
  };
}

/** `murmur:tool/run` of an HTTP driver. */
export function driverExport(load: LoadModule): { run(input: WitToolInput): WitToolResult } {
  return {
    run: (input) =>
      answered(async () => {
        const driver = await loaded<Driver>(load, ["infer"], "defineDriver");
        if (input.data === null) throw new TypeError("a driver is called with a request");
        const response = await driver.infer(JSON.parse(input.data) as DriverRequest, driverContext());
        return driverResult(response);
      }),
  };
}

/** A driver's answer as a tool result; the continuation travels as metadata (spec components 6.6). */
export function driverResult(response: DriverResponse): WitToolResult {
  const { continuationId, ...body } = response;
  return toResult({
    data: body,
    metadata: continuationId === undefined || continuationId === "" ? {} : { continuation_id: continuationId },
  });
}

/** `murmur:capsule/run`. */
export function capsuleExport(load: LoadModule): { run(): void } {
  return {
    run() {
      try {
        runToCompletion(async () => {
          const capsule = await loaded<Capsule>(load, ["run"], "defineCapsule");
          await capsule.run(capsuleContext());
        });
      } catch (error) {
        console.error(error);
        throw error;
      }
    },
  };
}

/** `murmur:hook/lifecycle.hook-output`. */
interface WitHookOutput {
  readonly tag: string;
  readonly val?: unknown;
}

/** `murmur:hook/lifecycle`. What the hook throws is its `err`; a function it does not have answers nothing. */
export function hookExport(load: LoadModule): Record<string, (event: unknown) => WitHookOutput> {
  const call = (name: typeof HOOK_FUNCTIONS[number]) => (event: unknown): WitHookOutput => {
    try {
      return runToCompletion(async () => {
        const hook = await loaded<Hook>(load, HOOK_FUNCTIONS, "defineHook");
        const run = hook[name] as ((event: unknown, context: typeof hookContext) => unknown) | undefined;
        return hookOutput(await run?.call(hook, event, hookContext));
      });
    } catch (error) {
      console.error(error);
      throw new Error(wellFormed(error instanceof Error ? error.message : String(error)));
    }
  };
  return Object.fromEntries(HOOK_FUNCTIONS.map((name) => [name, call(name)]));
}

/** An answer as the interface has it. The engine ends the component on one that is not, which loses its state. */
export function hookOutput(answer: unknown): WitHookOutput {
  if (answer === undefined || answer === null) return { tag: "none" };
  const { tag, val } = answer as HookOutput;
  const list = <T>(make: (item: never) => T): T[] => {
    if (!Array.isArray(val)) throw new TypeError(`a hook's answer '${tag}' holds no list`);
    return val.map((item) => make(item as never));
  };
  switch (tag) {
    case "deny":
    case "reopen-task":
    case "artifact":
      return { tag, val: wellFormed(String(val)) };
    case "replace-context":
    case "seed-context":
      return { tag, val: list((message: NewMessage) => witMessage(message)) };
    case "write-manifests":
      return {
        tag,
        val: list(({ binaryName, content }: { binaryName: unknown; content: unknown }) => ({
          binaryName: wellFormed(String(binaryName)),
          content: wellFormed(String(content)),
        })),
      };
    default:
      throw new TypeError("a hook answers with what deny, artifact and their like make, or with nothing");
  }
}
