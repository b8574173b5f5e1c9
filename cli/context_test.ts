import assert from "node:assert/strict";
import { progressLine, textOutput } from "./context.ts";

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

Deno.test("a stream whose reader went away is closed; one that cannot be written is told of once", () => {
  const lostWith = (cause: Error) => {
    const lost: unknown[] = [];
    const stream = {
      isTerminal: () => false,
      writeSync: (): number => {
        throw cause;
      },
    };
    const output = textOutput(stream, { get: () => undefined }, (reason) => lost.push(reason));
    assert.deepEqual([output.line("a"), output.write("b")], [false, false]);
    return lost;
  };
  assert.deepEqual(lostWith(new Deno.errors.BrokenPipe("gone")), []);
  const full = new Error("No space left on device (os error 28)");
  assert.deepEqual(lostWith(full), [full]);
});

Deno.test("progress is shown after a second on a terminal, gives way to lines and leaves nothing", async () => {
  const shownOn = async (isTerminal: boolean) => {
    let text = "";
    const stream = {
      isTerminal: () => isTerminal,
      writeSync: (bytes: Uint8Array) => {
        text += new TextDecoder().decode(bytes);
        return bytes.length;
      },
    };
    const { output, progress } = progressLine(textOutput(stream, { get: () => undefined }));
    const short = progress("short");
    short.done();
    const long = progress("long\u001b[1m");
    output.line("before");
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    output.line("between");
    long.update("longer");
    long.done();
    output.line("after");
    return text;
  };
  assert.equal(await shownOn(false), "before\nbetween\nafter\n");
  assert.equal(
    await shownOn(true),
    "before\n\r\x1b[Klong\\x1b[1m …\r\x1b[Kbetween\n\r\x1b[Klong\\x1b[1m …\r\x1b[Klonger …\r\x1b[Kafter\n",
  );
});
