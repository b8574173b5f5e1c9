import assert from "node:assert/strict";
import fc from "fast-check";
import { applyDiff, PatchError, replaceExactly } from "./patch.ts";

function refusal(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof PatchError) return error.message;
    throw error;
  }
  throw new Error("nothing was refused");
}

Deno.test("replacements are exact, in order, and unambiguous", () => {
  const text = "one\ntwo\none\n";
  assert.deepEqual(replaceExactly(text, [{ old_text: "two", new_text: "2" }]), { text: "one\n2\none\n", changes: 1 });
  assert.equal(replaceExactly(text, [{ old_text: "one", new_text: "1", all: true }]).text, "1\ntwo\n1\n");
  assert.equal(
    replaceExactly(text, [{ old_text: "two", new_text: "zwei" }, { old_text: "zwei\none", new_text: "$& $1" }]).text,
    "one\n$& $1\n",
  );
  assert.match(refusal(() => replaceExactly(text, [{ old_text: "one", new_text: "1" }])), /2 times, at lines 1, 3/);
  assert.match(refusal(() => replaceExactly(text, [{ old_text: "six", new_text: "" }])), /does not occur/);
  assert.match(refusal(() => replaceExactly(text, [{ old_text: "", new_text: "x" }])), /is empty/);
  assert.match(refusal(() => replaceExactly(text, [{ old_text: 5 } as never])), /needs old_text and new_text/);
});

const DIFF = `diff --git a/f b/f
--- a/f
+++ b/f
@@ -1,3 +1,4 @@
 a
-b
+B
+bb
 c
@@ -5,2 +6,1 @@
 e
-f
`;

Deno.test("a diff is applied, also where its line numbers are off", () => {
  const text = "a\nb\nc\nd\ne\nf\n";
  assert.deepEqual(applyDiff(text, DIFF), { text: "a\nB\nbb\nc\nd\ne\n", changes: 2 });
  assert.equal(applyDiff(`new first line\n${text}`, DIFF).text, "new first line\na\nB\nbb\nc\nd\ne\n");
  assert.equal(applyDiff(text.replace(/\n/g, "\r\n"), DIFF).text, "a\r\nB\r\nbb\r\nc\r\nd\r\ne\r\n");
  assert.equal(applyDiff("", "@@ -0,0 +1,2 @@\n+x\n+y\n").text, "x\ny\n");
  assert.equal(applyDiff("a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+c\n").text, "a\nc\n");
  assert.equal(applyDiff("a\nb\n", "@@ -2 +2 @@\n-b\n+c\n\\ No newline at end of file\n").text, "a\nc");
  assert.equal(applyDiff("a\nb\n", "@@ -1,2 +0,0 @@\n-a\n-b\n").text, "");
});

Deno.test("a diff that does not fit changes nothing and says where", () => {
  assert.match(refusal(() => applyDiff("a\nx\nc\nd\ne\nf\n", DIFF)), /hunk 1 \(line 1\) does not fit/);
  assert.match(refusal(() => applyDiff("a\nb\nc\nd\ne\n", DIFF)), /hunk 2 \(line 5\) does not fit/);
  assert.match(refusal(() => applyDiff("a", "just text")), /no hunk/);
  assert.match(refusal(() => applyDiff("a", "@@ -1,2 +1,2 @@\n a\n")), /ends inside the hunk/);
  assert.match(refusal(() => applyDiff("a", "@@ -1 +1 @@\nxa\n")), /starts with "x"/);
  assert.match(
    refusal(() => applyDiff("a", "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n--- c\n+++ d\n@@ -1 +1 @@\n-a\n+b\n")),
    /several/,
  );
});

Deno.test("a whole-file diff of any two texts turns one into the other", () => {
  const lines = fc.array(fc.constantFrom("a", "b", "", " c", "-d", "+e", "\\f"), { maxLength: 8 });
  fc.assert(fc.property(lines, lines, fc.boolean(), fc.boolean(), (before, after, bareBefore, bareAfter) => {
    const whole = (list: string[], bare: boolean) => list.join("\n") + (list.length > 0 && !bare ? "\n" : "");
    // A last line that is empty and has no newline is no line.
    fc.pre(!(bareBefore && before.at(-1) === "") && !(bareAfter && after.at(-1) === ""));
    fc.pre(before.length + after.length > 0);
    const marked = (list: string[], mark: string, bare: boolean) =>
      list.map((line, index) =>
        `${mark}${line}\n${bare && index === list.length - 1 ? "\\ No newline at end of file\n" : ""}`
      );
    const diff = [
      `@@ -${before.length === 0 ? 0 : 1},${before.length} +${after.length === 0 ? 0 : 1},${after.length} @@\n`,
      ...marked(before, "-", bareBefore),
      ...marked(after, "+", bareAfter),
    ].join("");
    assert.equal(applyDiff(whole(before, bareBefore), diff).text, whole(after, bareAfter));
  }));
});
