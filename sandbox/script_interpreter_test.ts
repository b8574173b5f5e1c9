import assert from "node:assert/strict";
import { parseInterpreter } from "./script_interpreter.ts";

Deno.test("the interpreter of a script is its first line's, that of env what env would run", () => {
  const rows: readonly [string, string | null][] = [
    ["#!/bin/sh\necho", "sh"],
    ["#! /usr/bin/python3 -u\r\nimport", "python3"],
    ["#!/usr/bin/env python3\n", "python3"],
    ["#!/usr/bin/env -S A=b C=d -u python3.12 -x\n", "python3.12"],
    ["#!/usr/bin/env /opt/bin/node\n", "node"],
    ["#!/usr/bin/env\n", "env"],
    ["#!/usr/bin/env -i\n", "env"],
    ["#!perl", "perl"],
    ["#!\n", ""],
    ["\x7fELF", null],
    ["#", null],
    ["", null],
    [" #!/bin/sh", null],
  ];
  for (const [text, name] of rows) {
    assert.equal(parseInterpreter(new TextEncoder().encode(text))?.name ?? null, name, text);
  }
  const long = new TextEncoder().encode(`#!/usr/bin/env ${" ".repeat(600)}late`);
  assert.deepEqual(parseInterpreter(long), { path: "/usr/bin/env", name: "env" });
});
