import assert from "node:assert/strict";
import fc from "fast-check";
import { escapeControls } from "./terminal_text.ts";

Deno.test("newline and tab pass, every other control character is shown", () => {
  for (let code = 0; code < 0xa0; code++) {
    const control = code < 0x20 || code >= 0x7f;
    const shown = escapeControls(String.fromCharCode(code));
    if (!control || code === 0x09 || code === 0x0a) assert.equal(shown, String.fromCharCode(code));
    else assert.equal(shown, code === 0x0d ? "\\r" : `\\x${code.toString(16).padStart(2, "0")}`);
  }
});

Deno.test("escape sequences lose their power", () => {
  assert.equal(escapeControls("\x1b[2J\x1b]0;title\x07\u009b31m"), "\\x1b[2J\\x1b]0;title\\x07\\x9b31m");
  assert.equal(escapeControls("file\u202etxt.exe"), "file\\u202etxt.exe");
});

Deno.test("text in any script stays as it is, joiners that shape it too", () => {
  for (const text of ["Grüße, 漢字, مرحبا, नमस्ते", "👩‍👩‍👧‍👦 🏳️‍🌈", "می‌خواهم"]) assert.equal(escapeControls(text), text);
});

Deno.test("a text may be escaped in pieces, as it is streamed", () => {
  fc.assert(fc.property(fc.array(fc.string({ unit: "binary" })), (pieces) => {
    assert.equal(pieces.map(escapeControls).join(""), escapeControls(pieces.join("")));
  }));
});
