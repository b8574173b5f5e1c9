import assert from "node:assert/strict";
import { streamUpdate } from "../base/stream_events.ts";
import { ArtifactPieces, shownSoFar, WatchView } from "./stream_view.ts";

const MB = 1 << 20;
const more = { append: true, last: false };

Deno.test("pieces of an artifact are joined, each artifact for itself", () => {
  const pieces = new ArtifactPieces();
  assert.equal(pieces.add("a", { append: false, last: false }, "1"), null);
  assert.equal(pieces.add("b", { append: false, last: true }, "x"), "x");
  assert.equal(pieces.add("a", more, "2"), null);
  assert.equal(pieces.add("a", { append: true, last: true }, "3"), "123");
  assert.equal(pieces.add("a", { append: true, last: true }, "4"), "4", "nothing is left of it");
});

Deno.test("artifacts without end are given up, one or many; those that end may be as many as they want", () => {
  const piece = "x".repeat(MB);
  for (const key of [() => "a", (i: number) => `a${i}`]) {
    const pieces = new ArtifactPieces();
    for (let i = 0; i < 100; i++) pieces.add(key(i), more, piece);
    assert.throws(() => {
      for (let i = 100; i < 200; i++) pieces.add(key(i), more, piece);
    }, { code: "E-IO-003" });
  }
  const pieces = new ArtifactPieces();
  for (let i = 0; i < 300; i++) {
    pieces.add("a", { append: false, last: false }, piece);
    pieces.add("a", { append: true, last: true }, piece);
    // One that starts again takes the place of itself.
    pieces.add("b", { append: false, last: false }, piece);
  }
});

Deno.test("a watch holds a bounded amount of answers whose tasks do not end", () => {
  const silent = { isTerminal: false, color: false, writeBytes: () => true, write: () => true, line: () => true };
  const view = new WatchView(silent, silent);
  assert.throws(() => {
    for (let i = 0; i < 200; i++) {
      view.show(streamUpdate({
        artifactUpdate: {
          taskId: `tsk_${i}`,
          artifact: { artifactId: "response", parts: [{ text: "x".repeat(MB) }] },
          append: false,
          lastChunk: true,
        },
      }));
    }
  }, { code: "E-IO-003" });
});

Deno.test("text that was shown is remembered up to a bound", () => {
  assert.equal(shownSoFar("a", "b"), "ab");
  let shown = "";
  for (let i = 0; i < 1_000; i++) shown = shownSoFar(shown, "x".repeat(MB));
  assert.ok(shown.length < 200 * MB);
});
