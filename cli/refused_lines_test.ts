import assert from "node:assert/strict";
import { withTempDir } from "../tests/support/cli_context.ts";
import type { TextOutput } from "./context.ts";
import { RefusedLines } from "./refused_lines.ts";

function stream(open: () => boolean): TextOutput & { text: string } {
  return {
    text: "",
    isTerminal: false,
    color: false,
    writeBytes: () => false,
    write(text) {
      if (open()) this.text += text;
      return open();
    },
    line(text) {
      return this.write(`${text}\n`);
    },
  };
}

Deno.test("refused lines are dropped before there is a records directory and kept after", async () => {
  await withTempDir(async (records) => {
    let open = true;
    const under = stream(() => open);
    const refused = new RefusedLines();
    const output = refused.keptFrom({ ...under, line: (text) => under.line(text), write: (text) => under.write(text) });
    assert.equal(output.line("shown"), true);
    open = false;
    assert.equal(output.line("dropped"), false);
    refused.keepIn(records);
    assert.equal(output.line("kept\u001b"), false);
    assert.equal(output.write("a piece"), false);
    assert.equal(output.line("kept too"), false);
    assert.equal(under.text, "shown\n");
    assert.equal(await Deno.readTextFile(`${records}/logs/bootstrap.log`), "kept\\x1b\nkept too\n");
  });
});

Deno.test("a log that cannot be written changes nothing", async () => {
  await withTempDir(async (records) => {
    await Deno.symlink("/tmp", `${records}/logs`);
    const refused = new RefusedLines();
    refused.keepIn(records);
    assert.equal(refused.keptFrom(stream(() => false)).line("text"), false);
    refused.keepIn(`${records}/absent`);
    assert.equal(refused.keptFrom(stream(() => false)).line("text"), false);
  });
});
