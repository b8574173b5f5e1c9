import assert from "node:assert/strict";
import { linkedWit, restoreVersions, withIdentity } from "./component_names.ts";
import { concat, leb } from "./wasm_module.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array) => new TextDecoder("latin1").decode(bytes);
const section = (id: number, body: Uint8Array) => concat([[id, ...leb(body.length)], body]);
const COMPONENT = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];
const CORE = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];

Deno.test("every WASI package but HTTP is linked under the other version", () => {
  assert.equal(
    linkedWit("package wasi:io@0.2.10; use wasi:clocks/wall-clock@0.2.10.{datetime}; import wasi:http/types@0.2.10;"),
    "package wasi:io@0.1.10; use wasi:clocks/wall-clock@0.1.10.{datetime}; import wasi:http/types@0.2.10;",
  );
  assert.equal(linkedWit("package murmur:tool@0.1.0;"), "package murmur:tool@0.1.0;");
});

Deno.test("names of interfaces get their version back, an author's text is left alone", () => {
  const name = encode("..wasi:io/poll@0.1.10..");
  const component = concat([
    COMPONENT,
    section(10, name),
    section(1, concat([CORE, section(2, name), section(11, name)])),
    section(4, concat([COMPONENT, section(10, name), section(1, concat([CORE, section(11, name)]))])),
    section(0, encode("other@0.1.10 murmur:io/poll@0.1.10 wasi:x@0.1.10")),
  ]);
  const restored = restoreVersions(component);
  assert.equal(restored.length, component.length);
  assert.equal(decode(restored).split("wasi:io/poll@0.2.10").length - 1, 3, "imports of component, module and nested");
  assert.equal(decode(restored).split("wasi:io/poll@0.1.10").length - 1, 2, "data");
  assert.ok(decode(restored).includes("other@0.1.10 murmur:io/poll@0.1.10 wasi:x@0.1.10"));
  assert.equal(decode(component).split("wasi:io/poll@0.1.10").length - 1, 5, "the input is not changed");
});

Deno.test("name and version stand where other tools look for them", () => {
  const named = withIdentity(concat([COMPONENT]), "my-tool", "1.2.3");
  assert.equal(decode(named.subarray(8)), "\x00\x19\x0ecomponent-name\x00\x08\x07my-tool\x00\x0d\x07version1.2.3");
});
