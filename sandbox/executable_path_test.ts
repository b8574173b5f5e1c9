import assert from "node:assert/strict";
import { findExecutable, findExecutables } from "./executable_path.ts";

Deno.test("the first regular file with an execute bit is the one", () => {
  const dir = Deno.makeTempDirSync();
  try {
    for (const name of ["a", "b", "c", "real"]) Deno.mkdirSync(`${dir}/${name}`);
    const put = (path: string, mode: number) => {
      Deno.writeTextFileSync(`${dir}/${path}`, "");
      Deno.chmodSync(`${dir}/${path}`, mode);
    };
    Deno.mkdirSync(`${dir}/a/tool`);
    put("b/tool", 0o644);
    put("real/program", 0o755);
    Deno.symlinkSync("../real/program", `${dir}/c/tool`);
    put("c/other", 0o001);
    const path = ["a", "b", "missing", "c", "real"].map((name) => `${dir}/${name}`).join(":");
    assert.deepEqual(findExecutable("tool", path), {
      invoked: `${dir}/c/tool`,
      canonical: Deno.realPathSync(`${dir}/real/program`),
    });
    assert.deepEqual(findExecutables("tool", `${path}:${dir}/c/`).map(({ invoked }) => invoked), [
      `${dir}/c/tool`,
      `${dir}/c/tool`,
    ]);
    assert.deepEqual(findExecutables("absent", path), []);
    assert.equal(findExecutable("other", path)?.invoked, `${dir}/c/other`);
    assert.equal(findExecutable("program", `${dir}/real/`)?.invoked, `${dir}/real/program`);
    assert.equal(findExecutable("absent", path), null);
    const before = Deno.cwd();
    Deno.chdir(`${dir}/real`);
    try {
      for (const relative of ["", ".", ":", "real", "::."]) {
        assert.equal(findExecutable("program", relative), null, "the current directory is never searched");
      }
    } finally {
      Deno.chdir(before);
    }
    for (const name of ["", ".", "..", "c/tool", `${dir}/c/tool`, "../c/tool"]) {
      assert.equal(findExecutable(name, path), null);
    }
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});
