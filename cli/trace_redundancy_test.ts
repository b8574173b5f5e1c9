import assert from "node:assert/strict";
import type { TraceLine } from "../runtime/trace/trace_reader.ts";
import { redundantReads } from "./trace_redundancy.ts";

function call(turn: number, effect: string | undefined, more: Record<string, unknown>): TraceLine {
  return { event_type: "tool_call", turn, tool_name: "t", duration_ms: 0, status: "ok", state_effect: effect, ...more };
}

function found(...lines: TraceLine[]): string[] {
  return redundantReads(lines).map(({ turn, resource, earlierTurn }) => `${turn} ${resource} ${earlierTurn}`);
}

Deno.test("a read of what was read before is redundant and points at the last read", () => {
  const read = (turn: number) => call(turn, "read", { input: { path: "a" } });
  assert.deepEqual(found(read(0), read(2), read(3)), ["2 a 0", "3 a 2"]);
});

Deno.test("anything but a read forgets the resource, only that one", () => {
  const on = (turn: number, effect: string | undefined, path: string) => call(turn, effect, { input: { path } });
  assert.deepEqual(found(on(0, "read", "a"), on(1, "mutate", "a"), on(2, "read", "a")), []);
  assert.deepEqual(found(on(0, "read", "a"), on(1, undefined, "a"), on(2, "read", "a")), []);
  assert.deepEqual(found(on(0, "read", "a"), on(1, "mutate", "b"), on(2, "read", "a")), ["2 a 0"]);
});

Deno.test("the resource is the declared one, else the first path-like string of the input", () => {
  const read = (turn: number, more: Record<string, unknown>) => call(turn, "read", more);
  assert.deepEqual(found(read(0, { resource_id: "r", input: { path: "x" } }), read(1, { resource_id: "r" })), [
    "1 r 0",
  ]);
  assert.deepEqual(found(read(0, { resource_id: "", input: { path: "x" } }), read(1, { input: { FilePath: "x" } })), [
    "1 x 0",
  ]);
  assert.deepEqual(
    found(read(0, { input: { path: 7, file: "f", filename: "g" } }), read(1, { input: { file_path: "f" } })),
    ["1 f 0"],
  );
  assert.deepEqual(found(read(0, { input: { url: "u" } }), read(1, { input: { url: "u" } })), []);
  assert.deepEqual(found(read(0, { input: { nested: { path: "x" } } }), read(1, { input: ["path"] }), read(2, {})), []);
});

Deno.test("successful plan steps share the history, failed ones do not count", () => {
  const step = (status: string): TraceLine => ({
    event_type: "plan_step",
    plan_id: "p",
    step_id: "s",
    kind: "tool",
    duration_ms: 0,
    status,
    state_effect: "read",
    input: { path: "a" },
  });
  assert.deepEqual(found(step("failed"), step("success"), call(4, "read", { input: { path: "a" } })), ["4 a null"]);
});
