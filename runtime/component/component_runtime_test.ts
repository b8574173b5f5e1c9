import assert from "node:assert/strict";
import { everythingTool, Harness } from "./testing/harness.ts";

Deno.test("a tool answers, and sees its environment, its clock and nothing else", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool(), { environment: { MURMUR_SESSION_ID: "ses_1", EMPTY: "" } });
  const result = await harness.call(spec, { op: "echo", value: { text: "grüße 😀", list: [1, null] } });
  assert.deepEqual(result, {
    status: "passed",
    summary: null,
    data: JSON.stringify({ text: "grüße 😀", list: [1, null] }),
    dataPath: null,
    truncated: false,
    metadata: [["op", "echo"]],
  });
  assert.deepEqual(await harness.do(spec, "environment"), [["MURMUR_SESSION_ID", "ses_1"], ["EMPTY", ""]]);
  assert.deepEqual(await harness.do(spec, "preopens"), []);
  assert.deepEqual(await harness.do(spec, "input"), { error: "closed" });
  const slept = await harness.do(spec, "sleep", { ms: 60 }) as number;
  assert.ok(slept >= 59 && slept < 2_000, String(slept));
  assert.deepEqual(await harness.do(spec, "pollTwo", { ms: 30 }), [1]);
});
Deno.test("files", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool(), { preopens: [harness.preopen(".")] });
  await harness.do(spec, "write", { path: "a.txt", text: "hello" });
  assert.equal(await harness.do(spec, "read", { path: "a.txt" }), "hello");
});
