import assert from "node:assert/strict";
import fc from "fast-check";
import { sessionTree } from "./session_tree.ts";

interface Session {
  readonly id: string;
  readonly by?: string;
}

function lines(...sessions: readonly Session[]): string[] {
  return sessionTree(sessions, ({ id }) => id, ({ by }) => by).map(({ session, branch }) => `${branch}${session.id}`);
}

Deno.test("without delegations the order stays, and nothing stands in front", () => {
  assert.deepEqual(lines({ id: "c" }, { id: "b" }, { id: "a" }), ["c", "b", "a"]);
  assert.deepEqual(lines(), []);
});

Deno.test("children stand below their parents, however they are ordered", () => {
  assert.deepEqual(
    lines(
      { id: "leaf", by: "mid" },
      { id: "mid", by: "top" },
      { id: "other" },
      { id: "twin", by: "top" },
      { id: "top" },
      { id: "late", by: "mid" },
    ),
    ["other", "top", "├─ mid", "│  ├─ leaf", "│  └─ late", "└─ twin"],
  );
});

Deno.test("a child whose parent is not there stands at the top with its own children", () => {
  assert.deepEqual(lines({ id: "grandchild", by: "child" }, { id: "child", by: "gone" }), ["child", "└─ grandchild"]);
});

Deno.test("every session is shown once, whatever records say of each other", () => {
  assert.deepEqual(lines({ id: "a", by: "a" }, { id: "b", by: "c" }, { id: "c", by: "b" }), ["a", "b", "└─ c"]);
  const session = fc.record({
    id: fc.constantFrom("a", "b", "c", "d", "e"),
    by: fc.constantFrom("a", "b", "c", "d", "x"),
  });
  const sessions = fc.uniqueArray(session, { selector: ({ id }) => id });
  fc.assert(fc.property(sessions, (given) => {
    const shown = sessionTree(given, ({ id }) => id, ({ by }) => by).map(({ session }) => session);
    assert.deepEqual(shown.toSorted((a, b) => a.id < b.id ? -1 : 1), given.toSorted((a, b) => a.id < b.id ? -1 : 1));
  }));
});
