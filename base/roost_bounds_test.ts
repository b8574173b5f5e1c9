import assert from "node:assert/strict";
import { formatBounds, parseBounds } from "./roost_bounds.ts";

Deno.test("bounds are read as they were told, and nothing else is", () => {
  const bounds = { maxDepth: 0, maxConcurrent: 4, maxLiveCapsules: Number.MAX_SAFE_INTEGER };
  assert.equal(formatBounds({ ...bounds, maxLiveCapsules: 64 }), "max-depth=0, max-concurrent=4, max-live-capsules=64");
  assert.deepEqual(parseBounds(formatBounds(bounds)), bounds);
  const told = "max-depth=1, max-concurrent=2, max-live-capsules=3";
  for (
    const text of [undefined, "", "3", `${told}x`, `x${told}`, told.replace("1", "-1"), told.replace("1", "1e3")]
  ) assert.equal(parseBounds(text), null, text);
});
