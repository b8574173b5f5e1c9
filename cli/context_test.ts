import assert from "node:assert/strict";
import { textOutput } from "./context.ts";

Deno.test("a line shows control characters on a terminal and passes them on to a pipe", () => {
  const written = (isTerminal: boolean) => {
    let text = "";
    const stream = {
      isTerminal: () => isTerminal,
      writeSync: (bytes: Uint8Array) => {
        text += new TextDecoder().decode(bytes);
        return bytes.length;
      },
    };
    const output = textOutput(stream, { get: () => undefined });
    output.line("[tool] \u001b]0;title\u0007a\tb\n\u202ec");
    return text;
  };
  assert.equal(written(true), "[tool] \\x1b]0;title\\x07a\tb\n\\u202ec\n");
  assert.equal(written(false), "[tool] \u001b]0;title\u0007a\tb\n\u202ec\n");
});
