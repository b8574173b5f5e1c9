import assert from "node:assert/strict";
import fc from "fast-check";
import { honouredArm, readHookAnswer } from "./hook_output.ts";

const MESSAGE = { role: "user", content: "[]" };

Deno.test("answers are read case by case, absent options as null", () => {
  assert.deepEqual(readHookAnswer({ ok: { tag: "none" } }), { kind: "output", output: { tag: "none" } });
  for (const tag of ["artifact", "reopen-task", "deny"]) {
    assert.deepEqual(readHookAnswer({ ok: { tag, val: "x" } }), { kind: "output", output: { tag, val: "x" } });
  }
  for (const tag of ["replace-context", "seed-context"]) {
    assert.deepEqual(readHookAnswer({ ok: { tag, val: [{ ...MESSAGE, insertedBy: "seed-context" }] } }), {
      kind: "output",
      output: { tag, val: [{ ...MESSAGE, id: null, sourceId: null, insertedBy: "seed-context" }] },
    });
  }
  assert.deepEqual(readHookAnswer({ ok: { tag: "write-manifests", val: [{ binaryName: "b", content: "c", x: 1 }] } }), {
    kind: "output",
    output: { tag: "write-manifests", val: [{ binaryName: "b", content: "c" }] },
  });
  assert.deepEqual(readHookAnswer({ err: "why" }), { kind: "error", text: "why" });
});

Deno.test("what no honest host sends is no answer, above all no 'none'", () => {
  const refused: unknown[] = [
    null,
    undefined,
    "none",
    [],
    {},
    { ok: null },
    { ok: "none" },
    { ok: [] },
    { ok: { tag: "None" } },
    { ok: { tag: ["none"] } },
    { ok: { tag: "allow" } },
    { ok: { tag: "deny" } },
    { ok: { tag: "deny", val: 1 } },
    { ok: { tag: "seed-context", val: "x" } },
    { ok: { tag: "seed-context", val: [{ role: "user" }] } },
    { ok: { tag: "seed-context", val: [{ ...MESSAGE, id: 1 }] } },
    { ok: { tag: "seed-context", val: [{ ...MESSAGE, insertedBy: "operator" }] } },
    { ok: { tag: "write-manifests", val: [{ binaryName: "b" }] } },
    { err: 1 },
  ];
  for (const value of refused) assert.equal(readHookAnswer(value), null, JSON.stringify(value));
});

Deno.test("an error beside an answer is an error", () =>
  assert.deepEqual(readHookAnswer({ ok: { tag: "none" }, err: "no" }), { kind: "error", text: "no" }));

Deno.test("any JSON is judged without failing, and only a lone 'none' reads as one", () => {
  fc.assert(fc.property(fc.jsonValue(), (value) => {
    const answer = readHookAnswer({ ok: value });
    if (answer?.kind === "output" && answer.output.tag === "none") {
      assert.equal((value as { tag?: unknown }).tag, "none");
    }
  }));
});

Deno.test("the honoured arm follows from the event alone", () => {
  assert.deepEqual(
    [
      "on-stage",
      "on-session-start",
      "on-task-start",
      "on-inference",
      "on-tool-call",
      "on-shell",
      "on-compaction",
      "on-task-end",
      "on-session-end",
    ].map((event) => honouredArm(event as Parameters<typeof honouredArm>[0])),
    ["write-manifests", null, "seed-context", "artifact", null, null, "replace-context", "reopen-task", null],
  );
});
