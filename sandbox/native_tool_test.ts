import assert from "node:assert/strict";
import { readNativeToolOutput, runNativeTool } from "./native_tool.ts";
import { startPlainCommand } from "./testing/plain_command.ts";

function read(stdout: string, exitCode = 0, stderr = "") {
  return readNativeToolOutput("t", { stdout, stderr, exitCode, exit: `exit status ${exitCode}` });
}

Deno.test("what a tool writes is its result", () => {
  assert.deepEqual(read('{"status":"passed","summary":"3 lines","data":"x"}'), {
    status: "passed",
    summary: "3 lines",
    data: "x",
  });
  // With JSON the exit code decides nothing.
  assert.deepEqual(read(' {"status":"failed","data":{"a":[1]}}\n', 3), {
    status: "failed",
    summary: null,
    data: '{"a":[1]}',
  });
  for (const text of ['{"status":"other"}', "{}", '{"status":1,"summary":2,"data":null}', "[]", "5", "null", '"x"']) {
    assert.deepEqual(read(text), { status: "error", summary: null, data: null }, text);
  }
  assert.equal(read('{"data":0}').data, "0");
  assert.equal(read('{"data":false}').data, "false");
  assert.equal(read('{"data":""}').data, "");
  assert.deepEqual(read("plain text\n"), {
    status: "passed",
    summary: "native tool 't' completed",
    data: "plain text\n",
  });
  assert.equal(read("plain", 1).status, "error");
  assert.deepEqual(read(" \n", 0, "note"), {
    status: "passed",
    summary: "native tool 't' exited with exit status 0",
    data: "note",
  });
  assert.deepEqual(read("", 2), { status: "error", summary: "native tool 't' exited with exit status 2", data: null });
});

async function tool(script: string, input: unknown = {}) {
  const dir = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${dir}/tool`, script);
    await Deno.chmod(`${dir}/tool`, 0o755);
    return await runNativeTool("t", input, (streams) =>
      startPlainCommand(dir, {
        ...streams,
        program: `${dir}/tool`,
        args: [],
        cwd: dir,
        env: { PATH: "/usr/bin:/bin" },
        spoolDir: null,
      }), new AbortController().signal);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a tool reads one JSON object and its end", async () => {
  const input = { path: "a.txt", text: 'grüße "x"' };
  const result = await tool("#!/bin/sh\ncat", input);
  // What it echoes is an object without a status.
  assert.equal(result.status, "error");
  assert.deepEqual(JSON.parse(result.data!), input);
  const large = { text: "x".repeat(500_000) };
  assert.deepEqual(JSON.parse((await tool("#!/bin/sh\nsleep 0.1; cat", large)).data!), large);
});

Deno.test("a tool need not read its input, and may fail in every way", async () => {
  const large = { text: "x".repeat(500_000) };
  assert.equal((await tool('#!/bin/sh\necho \'{"status":"passed","data":"ok"}\'', large)).data, "ok");
  assert.deepEqual(await tool("#!/bin/sh\necho broken >&2; exit 7"), {
    status: "error",
    summary: "native tool 't' exited with exit status 7",
    data: "broken\n",
  });
  assert.deepEqual(await tool("#!/bin/sh\nkill -SEGV $$"), {
    status: "error",
    summary: "native tool 't' exited with signal SIGSEGV",
    data: null,
  });
  assert.equal((await tool("#!/bin/sh\nprintf '\\377'")).data, "\ufffd");
  await assert.rejects(tool("#!/nothing/here\n"), {
    code: "E-IO-003",
    message: "failed to spawn native tool 't': exec: No such file or directory",
  });
});
