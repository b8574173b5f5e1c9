import assert from "node:assert/strict";
import { fillText, fillValue, PlaceholderError, type PlaceholderValues, withoutFence } from "./placeholders.ts";

const SHELL = "$ ls\nExit code: 2\nStdout:\na.txt\nb.txt\n\nStderr:\nls: no c\n";
const VALUES: PlaceholderValues = {
  task: "count {{model}}",
  model: "scripted",
  results: [
    `<untrusted-content source=tool:bash>\n${SHELL}\n</untrusted-content>`,
    '<untrusted-content source=tool:x>\n{"a":{"b":[1,"two"]},"text":"t"}\n</untrusted-content>',
    "plain",
  ],
};

Deno.test("placeholders name the task, the model and results", () => {
  const cases: [string, string][] = [
    ["{{task}}", "count {{model}}"],
    ["{{ model }}!", "scripted!"],
    ["{{results.0.stdout}}|{{results.0.stderr}}|{{results.0.exit_code}}", "a.txt\nb.txt|ls: no c|2"],
    ["{{results.1.json.a.b.1}} {{results.1.json.a}} {{results.1.json.text}}", 'two {"b":[1,"two"]} t'],
    ["{{results.2}} {{results.last}}", "plain plain"],
    ["no placeholder {x} }}", "no placeholder {x} }}"],
  ];
  for (const [text, filled] of cases) assert.equal(fillText(text, VALUES), filled);
  assert.deepEqual(fillValue({ path: "{{results.2}}", n: 1, list: ["{{model}}", null] }, VALUES), {
    path: "plain",
    n: 1,
    list: ["scripted", null],
  });
});

Deno.test("one that names nothing is refused", () => {
  for (const name of ["x", "results.9", "results", "results.2.stdout", "results.1.json.a.none", "results.2.json.a"]) {
    assert.throws(() => fillText(`{{${name}}}`, VALUES), PlaceholderError, name);
  }
});

Deno.test("the fence is taken off only where it stands around the whole", () => {
  assert.equal(withoutFence("<untrusted-content source=tool:a>\nx\n</untrusted-content>"), "x");
  assert.equal(withoutFence("x <untrusted-content source=tool:a>"), "x <untrusted-content source=tool:a>");
  assert.equal(withoutFence("<untrusted-content source=tool:a>\nx"), "<untrusted-content source=tool:a>\nx");
});
