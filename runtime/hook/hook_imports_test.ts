import assert from "node:assert/strict";
import fc from "fast-check";
import { userMessage } from "../agent/message.ts";
import { ProtocolViolation } from "../component/host_messages.ts";
import { hookImports, type HookImportServices } from "./hook_imports.ts";

const services = (changes: Partial<HookImportServices> = {}): HookImportServices => ({
  mayReadTask: true,
  mayReadConversation: true,
  task: () => ({ asGiven: "given ä", original: "original", output: null }),
  conversation: () => [userMessage("one"), userMessage("two")],
  countTokens: (text) => Promise.resolve(text.length),
  runInference: ({ messages, model }) =>
    Promise.resolve({ text: messages[0]!.content, modelUsed: model ?? "default", inputTokens: 1, outputTokens: 2 }),
  ...changes,
});

const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const ask = (name: string, value: unknown, changes: Partial<HookImportServices> = {}) =>
  hookImports(services(changes))(name, bytes(value), new AbortController().signal);
const refused = (code: string, name: string, value: unknown, changes: Partial<HookImportServices> = {}) =>
  assert.rejects(
    ask(name, value, changes),
    (error) => error instanceof Error && !(error instanceof ProtocolViolation) && error.message === code,
  );

Deno.test("task texts are read as granted, in scope and in range", async () => {
  assert.equal(await ask("task-io", { read: "input-len", form: "as-given" }), 8);
  assert.equal(await ask("task-io", { read: "input", form: "original", offset: 2, maxBytes: 3 }), "igi");
  const output = { task: () => ({ asGiven: "", original: "", output: "done" }) };
  assert.equal(await ask("task-io", { read: "output-len" }, output), 4);
  assert.equal(await ask("task-io", { read: "output", offset: 0, maxBytes: 9 }, output), "done");
  await refused("no-output", "task-io", { read: "output-len" });
  await refused("out-of-range", "task-io", { read: "input", form: "as-given", offset: 7, maxBytes: 9 });
  await refused("no-task", "task-io", { read: "input-len", form: "original" }, { task: () => null });
  for (const read of ["input-len", "input", "output-len", "output"]) {
    await refused("not-granted", "task-io", { read, form: "as-given", offset: 0, maxBytes: 1 }, { mayReadTask: false });
  }
});

Deno.test("the conversation is read as granted, and says why it cannot be", async () => {
  const page = await ask("read-messages", { cursor: null, limit: 1 }) as { total: number; nextCursor: string };
  assert.deepEqual([page.total, page.nextCursor], [2, "1"]);
  await refused("not-granted", "read-messages", { cursor: null, limit: 1 }, { mayReadConversation: false });
  await refused("invalid-cursor", "read-messages", { cursor: "9", limit: 1 });
  await refused("unavailable: broken", "read-messages", { cursor: null, limit: 1 }, {
    conversation: () => {
      throw new Error("broken");
    },
  });
});

Deno.test("an inference takes messages, and a model only when one is named", async () => {
  const message = { role: "user", content: "q" };
  assert.deepEqual(await ask("run-inference", { messages: [message] }), {
    text: "q",
    modelUsed: "default",
    inputTokens: 1,
    outputTokens: 2,
  });
  const named = await ask("run-inference", { messages: [message], model: "m", systemPrompt: null });
  assert.equal((named as { modelUsed: string }).modelUsed, "m");
});

Deno.test("what no honest host asks ends it; there is no other import", async () => {
  for (
    const [name, value] of [
      ["task-io", { read: "everything", form: "as-given" }],
      ["task-io", { read: "input", form: "as-given", offset: -1, maxBytes: 1 }],
      ["task-io", { read: "input-len", form: "secret" }],
      ["task-io", null],
      ["read-messages", { cursor: 1, limit: 1 }],
      ["read-messages", { cursor: null, limit: 1.5 }],
      ["run-inference", {}],
      ["run-inference", { messages: [{ role: "user" }] }],
      ["run-inference", { messages: [], model: 1 }],
      ["count-tokens", { text: "x" }],
    ] as const
  ) await assert.rejects(ask(name, value), ProtocolViolation, JSON.stringify(value));
  assert.equal(await ask("read-secrets", {}), undefined);
});

Deno.test("no request fails in a way that is neither an answer, a refusal nor the host's end", async () => {
  const name = fc.constantFrom("run-inference", "count-tokens", "task-io", "read-messages");
  await fc.assert(fc.asyncProperty(name, fc.jsonValue(), async (op, value) => {
    try {
      await ask(op, value);
    } catch (error) {
      assert.ok(
        error instanceof ProtocolViolation || error instanceof Error && error.constructor === Error,
        String(error),
      );
    }
  }));
});
