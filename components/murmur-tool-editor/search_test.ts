import assert from "node:assert/strict";
import { formatGroups, searchText } from "./search.ts";

const TEXT = "a1\nb\na2\nc\nd\ne\na3\n";
const found = (pattern: RegExp, context: number, limit = 10) =>
  formatGroups("f", searchText(TEXT, pattern, context, limit), context);

Deno.test("matches with their lines, groups that touch are one", () => {
  assert.deepEqual(found(/a\d/, 0), ["f:1:a1", "f:3:a2", "f:7:a3"]);
  assert.deepEqual(found(/a\d/, 1), ["f:1:a1", "f-2-b", "f:3:a2", "f-4-c", "--", "f-6-e", "f:7:a3"]);
  assert.deepEqual(found(/a\d/g, 0, 2), ["f:1:a1", "f:3:a2"]);
  assert.deepEqual(found(/^$/, 0), []);
  assert.deepEqual(found(/z/, 2), []);
  assert.deepEqual(formatGroups("f", searchText("x\r\ny\r\n", /^y$/, 0, 5), 0), ["f:2:y"]);
});

Deno.test("a very long line is shortened", () => {
  const [line] = formatGroups("f", searchText("y".repeat(900), /y/, 0, 1), 0);
  assert.equal(line, `f:1:${"y".repeat(500)} … (900 characters)`);
});
