import assert from "node:assert/strict";
import { batches, readSummary, runJobs, type TestCount, testFiles, type TestJob } from "./test_runner.ts";

Deno.test("the last summary counts, coloured or not, with or without steps", () => {
  assert.deepEqual(readSummary("ok | 3 passed | 0 failed (1ms)\n"), { passed: 3, failed: 0 });
  assert.deepEqual(readSummary("\x1b[31mFAILED\x1b[0m | 3 passed (2 steps) | 1 failed (1 step) | 2 ignored (1ms)"), {
    passed: 3,
    failed: 1,
  });
  assert.deepEqual(readSummary("ok | 1 passed | 0 failed\nnoise\nFAILED | 1 passed | 4 failed\n"), {
    passed: 1,
    failed: 4,
  });
});

Deno.test("output without a summary is no count", () => {
  assert.equal(readSummary("error: Module not found"), null);
});

Deno.test("every test file below a path is found once, whatever was named before it; what is not there has none", async () => {
  const root = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${root}/room/inner`, { recursive: true });
    for (const name of ["room/b_test.ts", "room/a_test.ts", "room/a.ts", "room/test.ts", "room/inner/c_test.ts"]) {
      await Deno.writeTextFile(`${root}/${name}`, "");
    }
    assert.deepEqual(await testFiles(root, ["room/b_test.ts", "missing", "room"]), [
      "room/b_test.ts",
      "room/a_test.ts",
      "room/inner/c_test.ts",
    ]);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("files share a run with those of their own folder, as many as one takes", () => {
  assert.deepEqual(batches(["r/a", "r/b", "r/c", "r/in/a", "s/a", "s/b"], 2), [
    ["r/a", "r/b"],
    ["r/c"],
    ["r/in/a"],
    ["s/a", "s/b"],
  ]);
});

Deno.test("jobs done side by side keep their output together, and the errors come once more at the end", async () => {
  const said: string[] = [];
  const job = (title: string, lines: readonly string[], count: TestCount): TestJob => ({
    title,
    async run(write) {
      for (const line of lines) {
        write(new TextEncoder().encode(line));
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      return count;
    },
  });
  const total = await runJobs([
    job("one", ["1\n", "2\n", "3\n"], { passed: 3, failed: 0 }),
    job("two", ["fine\n", "\n ERRORS \n\nbad\n"], { passed: 1, failed: 1 }),
    job("three", ["broken off\n"], { passed: 0, failed: 1 }),
  ], (text) => void said.push(text));
  assert.deepEqual(total, { passed: 4, failed: 2 });
  assert.deepEqual(said.slice(0, 3).sort(), [
    "\n== one\n1\n2\n3\n",
    "\n== three\nbroken off\n",
    "\n== two\nfine\n\n ERRORS \n\nbad\n",
  ]);
  assert.equal(said.length, 4);
  assert.ok(said[3]!.includes("\n== two\n\n ERRORS \n\nbad\n"), said[3]);
  assert.ok(said[3]!.includes("\n== three\nbroken off\n"));
});
