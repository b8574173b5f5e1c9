import assert from "node:assert/strict";
import type { TextOutput } from "./context.ts";
import { terminalView } from "./terminal_view.ts";

function output(): TextOutput & { text: string } {
  const stream = {
    text: "",
    isTerminal: true,
    color: false,
    writeBytes: () => false,
    write(text: string) {
      stream.text += text;
      return true;
    },
    line: (text: string) => stream.write(`${text}\n`),
  };
  return stream;
}

Deno.test("chunks are shown as they come and ended by one newline", () => {
  const stdout = output();
  const show = terminalView({ stdout, stderr: output(), thinking: false });
  show({ type: "text", taskId: "t", text: "Hel", final: false });
  show({ type: "text", taskId: "t", text: "lo", final: false });
  show({ type: "text", taskId: "t", text: "", final: true });
  show({ type: "status", taskId: "t", contextId: "c", state: "completed", message: "Hello", final: true });
  assert.equal(stdout.text, "Hello\n");
});

Deno.test("control characters of the model do not reach the terminal", () => {
  const stdout = output();
  terminalView({ stdout, stderr: output(), thinking: false })({
    type: "text",
    taskId: "t",
    text: "\x1b]0;owned\x07ok",
    final: true,
  });
  assert.equal(stdout.text, "\\x1b]0;owned\\x07ok\n");
});

Deno.test("thinking is shown on stderr, and only when asked for", () => {
  for (const thinking of [true, false]) {
    const stderr = output();
    const show = terminalView({ stdout: output(), stderr, thinking });
    show({ type: "thinking", taskId: "t", text: "hmm", final: false });
    show({ type: "text", taskId: "t", text: "a", final: true });
    assert.equal(stderr.text, thinking ? "hmm\n" : "");
  }
});
