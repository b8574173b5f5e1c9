import assert from "node:assert/strict";
import fc from "fast-check";
import { canonicalJson } from "./canonical_json.ts";

Deno.test("members are sorted at every depth, lists keep their order", () => {
  assert.equal(
    canonicalJson({ b: [{ d: 1, c: 2 }, 1], a: { z: null, y: "ä" } }),
    '{"a":{"y":"ä","z":null},"b":[{"c":2,"d":1},1]}',
  );
});

Deno.test("the order members came in does not show, and nothing is lost", () => {
  fc.assert(fc.property(fc.jsonValue(), fc.infiniteStream(fc.nat()), (value, random) => {
    const shuffled = (node: unknown): unknown => {
      if (Array.isArray(node)) return node.map(shuffled);
      if (typeof node !== "object" || node === null) return node;
      const entries = Object.entries(node).map(([key, member]) =>
        [random.next().value!, key, shuffled(member)] as const
      );
      return Object.fromEntries(entries.sort(([a], [b]) => a - b).map(([, key, member]) => [key, member]));
    };
    assert.equal(canonicalJson(shuffled(value)), canonicalJson(value));
    assert.deepEqual(JSON.parse(canonicalJson(value)), JSON.parse(JSON.stringify(value)));
  }));
});
