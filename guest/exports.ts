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
import type { WitToolInput, WitToolResult } from "./host.ts";
import { failureResult, ToolFailure, toResult } from "./result.ts";
import { type Tool, toolContext } from "./tool.ts";

/** Evaluates the author's module and gives its default export. Called once per instance, at its first call. */
export type LoadModule = () => PromiseLike<{ readonly default?: unknown }>;

async function loaded<T>(load: LoadModule, method: string, declared: string): Promise<T> {
  const value = (await load()).default;
  if (typeof value !== "object" || value === null || !(method in value)) {
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
        const tool = await loaded<Tool<unknown>>(load, "run", "defineTool");
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
        const driver = await loaded<Driver>(load, "infer", "defineDriver");
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
          const capsule = await loaded<Capsule>(load, "run", "defineCapsule");
          await capsule.run(capsuleContext());
        });
      } catch (error) {
        console.error(error);
        throw error;
      }
    },
  };
}
