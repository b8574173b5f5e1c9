import assert from "node:assert/strict";
import { importsOf } from "../../scripts/check_layers.ts";

const ROOT = new URL("../../", import.meta.url);

async function* modules(folder: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(new URL(folder, ROOT))) {
    if (isDirectory) yield* modules(`${folder}${name}/`);
    else if (name.endsWith(".ts") && !name.endsWith("_test.ts")) yield `${folder}${name}`;
  }
}

Deno.test("a capsule without hooks loads no module of theirs: the session alone imports them, when it has one", async () => {
  const loading: string[] = [];
  for (const room of ["base/", "artifact/", "sandbox/", "runtime/", "cli/"]) {
    for await (const path of modules(room)) {
      if (path.startsWith("runtime/hook/")) continue;
      for (const { to, typeOnly, dynamic } of importsOf(path, await Deno.readTextFile(new URL(path, ROOT)))) {
        if (to.startsWith("runtime/hook/") && !typeOnly) loading.push(`${path} ${dynamic ? "when needed" : "always"}`);
      }
    }
  }
  assert.deepEqual([...new Set(loading)], ["runtime/session/run_session.ts when needed"]);
});
