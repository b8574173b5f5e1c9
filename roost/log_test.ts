import assert from "node:assert/strict";
import { createLog } from "./log.ts";

function collecting() {
  let text = "";
  return {
    get lines() {
      return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
    },
    get text() {
      return text;
    },
    write(bytes: Uint8Array) {
      text += new TextDecoder().decode(bytes.subarray(0, 7));
      return Promise.resolve(Math.min(7, bytes.length));
    },
  };
}

Deno.test("events are lines of JSON with their time, whole even when they are written in pieces", async () => {
  const sink = collecting();
  const log = createLog(sink, () => 0);
  log.event({ event: "spawn", status: 200 });
  log.event({});
  await log.flush(1_000);
  log.event({ event: "later" });
  await log.flush(1_000);
  const time = "1970-01-01T00:00:00.000Z";
  assert.deepEqual(sink.lines, [{ time, event: "spawn", status: 200 }, { time }, { time, event: "later" }]);
});

Deno.test("nothing in a value breaks a line or acts on a terminal", async () => {
  const sink = collecting();
  const log = createLog(sink);
  const value = "a\nb\r\u001b[2J\u009b\u2028\u202eé\u{1f600}";
  log.event({ value });
  await log.flush(1_000);
  assert.match(sink.text, /^[\x20-\x7e]+\n$/);
  assert.equal(sink.lines[0].value, value);
});

Deno.test("a reader that does not read holds nothing up: lines are dropped, and counted", async () => {
  let release = () => {};
  let text = "";
  const log = createLog({
    async write(bytes) {
      await new Promise<void>((resolve) => release = resolve);
      text += new TextDecoder().decode(bytes);
      return bytes.length;
    },
  });
  const line = "x".repeat(1_000);
  for (let count = 0; count < 2_000; count++) log.event({ line });
  await new Promise((resolve) => setTimeout(resolve, 30));
  for (let count = 0; count < 2_000; count++) log.event({ line });
  await log.flush(10);
  assert.equal(text, "");
  release();
  await new Promise((resolve) => setTimeout(resolve, 10));
  log.event({ last: true });
  for (let count = 0; count < 20; count++) {
    release();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const lines = text.trim().split("\n").map((each) => JSON.parse(each));
  const written = lines.filter((each) => "line" in each).length;
  const dropped = lines.filter((each) => each.event === "dropped").reduce((sum, each) => sum + each.lines, 0);
  assert.equal(written + dropped, 4_000);
  assert.ok(written < 600, `${written}`);
  assert.ok(lines.some((each) => each.last));
});

Deno.test("a sink that fails stops nobody", async () => {
  const log = createLog({ write: () => Promise.reject(new Error("gone")) });
  log.event({ a: 1 });
  await log.flush(1_000);
  log.event({ b: 1 });
  await log.flush(1_000);
});
