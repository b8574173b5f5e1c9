import assert from "node:assert/strict";
import { Headers } from "./headers.ts";

Deno.test("names are lower case, values trimmed, several joined", () => {
  const headers = new Headers({ "Content-Type": "  text/plain\t" });
  headers.append("X-List", "a");
  headers.append("x-list", "b");
  assert.equal(headers.get("CONTENT-TYPE"), "text/plain");
  assert.equal(headers.get("x-list"), "a, b");
  assert.equal(headers.get("none"), null);
  assert.ok(headers.has("X-LIST"));
  headers.set("x-list", "c");
  assert.equal(headers.get("x-list"), "c");
  headers.delete("X-List");
  assert.ok(!headers.has("x-list"));
});

Deno.test("entries are sorted, cookies stay apart", () => {
  const headers = new Headers([["b", "2"], ["set-cookie", "x=1, y"], ["a", "1"], ["Set-Cookie", "z=2"], ["b", "3"]]);
  assert.deepEqual([...headers], [["a", "1"], ["b", "2, 3"], ["set-cookie", "x=1, y"], ["set-cookie", "z=2"]]);
  assert.deepEqual(headers.getSetCookie(), ["x=1, y", "z=2"]);
  assert.deepEqual([...new Headers(headers).keys()], ["a", "b", "set-cookie", "set-cookie"]);
  const seen: string[] = [];
  headers.forEach((value, name) => seen.push(`${name}=${value}`));
  assert.equal(seen.length, 4);
});

Deno.test("what no header can carry is refused, and a value is never quoted", () => {
  const headers = new Headers();
  for (const name of ["", " a", "a b", "a:b", "ä", "a\r\n", "a\0"]) {
    assert.throws(() => headers.append(name, "x"), TypeError, JSON.stringify(name));
    assert.throws(() => headers.get(name), TypeError);
  }
  for (const value of ["a\r\nInjected: 1", "a\nb", "a\0b", "€"]) {
    assert.throws(() => headers.set("x", value), (error: Error) => {
      assert.ok(error instanceof TypeError && !error.message.includes(value));
      return true;
    });
  }
  assert.deepEqual([...headers], []);
  headers.set("x", "\u00ff");
  assert.equal(headers.get("x"), "\u00ff");
  assert.throws(() => new Headers([["only name"] as never]), TypeError);
});
