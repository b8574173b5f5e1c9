import assert from "node:assert/strict";
import { decodeText, fileName, isText, parseMediaType } from "./media_type.ts";

Deno.test("content types", () => {
  assert.deepEqual(parseMediaType('Text/HTML; Charset="ISO-8859-1"'), { type: "text/html", charset: "iso-8859-1" });
  assert.deepEqual(parseMediaType(null), { type: "", charset: null });
  const none = new Uint8Array();
  for (
    const type of ["text/plain", "application/json", "application/problem+json", "image/svg+xml", "application/xml"]
  ) {
    assert.ok(isText({ type, charset: null }, none), type);
  }
  for (const type of ["image/png", "application/pdf", "application/zip"]) {
    assert.ok(!isText({ type, charset: null }, none));
  }
  assert.ok(isText({ type: "", charset: null }, new TextEncoder().encode("grüße\n")));
  assert.ok(!isText({ type: "application/octet-stream", charset: null }, Uint8Array.of(1, 2, 0)));
  assert.equal(decodeText(Uint8Array.of(0xe4), "iso-8859-1"), "ä");
  assert.equal(decodeText(Uint8Array.of(0xc3, 0xa4), "no-such-charset"), "ä");
});

Deno.test("a file name that stays in its folder", () => {
  const name = (url: string, type = "") => fileName(new URL(url), { type, charset: null });
  assert.equal(name("https://h/a/report.pdf"), "report.pdf");
  assert.equal(name("https://h/a/data", "application/json"), "data.json");
  assert.equal(name("https://h/", "text/html"), "h.html");
  assert.equal(name("https://h/..%2f..%2fetc%2fpasswd"), "_.._etc_passwd");
  assert.equal(name("https://h/.bashrc"), "bashrc");
  assert.equal(name("https://h/%00"), "_");
  assert.ok(name(`https://h/${"x".repeat(300)}`).length <= 80);
});
