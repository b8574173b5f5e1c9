import assert from "node:assert/strict";
import fc from "fast-check";
import { toolNames } from "./tool_names.ts";

Deno.test("a name the provider takes stays, another is respelled and found again", () => {
  const names = toolNames(["list-files", "g++", "python3.12", "g__"]);
  assert.equal(names.wire("list-files"), "list-files");
  // The tool whose name needs no change keeps it, though the other stands before it.
  assert.equal(names.wire("g__"), "g__");
  assert.equal(names.wire("g++"), "g___2");
  assert.equal(names.wire("python3.12"), "python3_12");
  assert.equal(names.own("g___2"), "g++");
  assert.equal(names.own("unknown"), "unknown");
  assert.equal(names.wire("gone+tool"), "gone_tool");
});

Deno.test("whatever the tools are called, wire names are valid, distinct, and lead back", () => {
  const name = fc.oneof(fc.string({ unit: "binary", maxLength: 90 }), fc.constantFrom("a+", "a.", "a_", "a_2", ""));
  fc.assert(fc.property(fc.uniqueArray(name, { maxLength: 20 }), (offered) => {
    const names = toolNames(offered);
    const wires = offered.map(names.wire);
    assert.equal(new Set(wires).size, offered.length);
    for (const [index, wire] of wires.entries()) {
      assert.match(wire, /^[A-Za-z0-9_-]{1,64}$/);
      assert.equal(names.own(wire), offered[index]);
    }
  }));
});
