import assert from "node:assert/strict";
import { importsOf, layerFaults } from "./check_layers.ts";

Deno.test("an import against the arrows is a fault", () => {
  const faults = layerFaults(importsOf("base/a.ts", `import { b } from "../artifact/b.ts";`));
  assert.equal(faults.length, 1);
  assert.match(faults[0]!, /base\/a\.ts imports artifact\/b\.ts/);
});

Deno.test("a dynamic import counts for the arrows", () => {
  assert.equal(layerFaults(importsOf("roost/a.ts", `const m = await import("../runtime/b.ts");`)).length, 1);
});

Deno.test("multi-line imports, re-exports and bare imports are seen", () => {
  const source = `import {\n  a,\n  b,\n} from "./b.ts";\nexport * from "./c.ts";\nimport "./d.ts";\n`;
  assert.deepEqual(importsOf("base/a.ts", source).map((i) => i.to), ["base/b.ts", "base/c.ts", "base/d.ts"]);
});

Deno.test("imports in comments are not imports", () => {
  assert.deepEqual(
    importsOf("base/a.ts", `/**\n * import { x } from "../cli/x.ts";\n */\n// import "../cli/y.ts"\n`),
    [],
  );
});

Deno.test("a cycle of static imports is a fault; a type or dynamic import breaks it", () => {
  const a = importsOf("base/a.ts", `import { b } from "./b.ts";`);
  assert.equal(layerFaults([...a, ...importsOf("base/b.ts", `import { a } from "./a.ts";`)]).length, 1);
  assert.equal(layerFaults([...a, ...importsOf("base/b.ts", `import type { A } from "./a.ts";`)]).length, 0);
  assert.equal(layerFaults([...a, ...importsOf("base/b.ts", `await import("./a.ts");`)]).length, 0);
});

Deno.test("the product imports no test", () => {
  assert.equal(layerFaults(importsOf("runtime/a.ts", `import { x } from "../tests/support/x.ts";`)).length, 1);
});
