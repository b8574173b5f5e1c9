import assert from "node:assert/strict";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { judgeScripts } from "./script_reachability.ts";

Deno.test("under a sealed floor every script needs a grant; all that have none are named at once", async () => {
  const bin = await Deno.realPath(await Deno.makeTempDir());
  try {
    const program = (name: string, text: string) => Deno.writeTextFile(`${bin}/${name}`, text, { mode: 0o755 });
    await program("lint", "#!/usr/bin/env python3\n");
    await program("format", "#!/opt/node/bin/node\n");
    await program("native", "\x7fELF");
    await Deno.symlink("/usr/bin/env", `${bin}/system`);
    const judge = (shell: string, floor: "advisory" | "scoped" | "sealed" = "sealed") =>
      judgeScripts(
        parseCapsuleManifest(`name: a\nversion: "1"\ncapabilities:\n  shell: ${shell}\n`, "m").manifest,
        floor,
        bin,
      );
    const grant = (kind: "staged" | "interpreter", binary: string, path: string) =>
      kind === "staged"
        ? `staged_runtime: [{ binary: ${binary}, source_path: ${path}, pin: x }]`
        : `interpreter_runtime: [{ binary: ${binary}, dirs: [{ path: ${path}, list_dir: true }] }]`;

    assert.throws(() => judge("{ allow: [lint, native, system, absent, format] }"), (error) => {
      const { code, message, place } = error as { code: string; message: string; place: { line: number } };
      assert.deepEqual([code, place.line], ["E-CAP-006", 4]);
      assert.match(message, /grants 'lint' \(\/.*\/lint, a script run by 'python3'\).*; .*'format' .*run by 'node'\)/);
      assert.ok(!/native|system|absent/.test(message));
      return true;
    });
    const accepted = [
      "{ allow: [native, system, absent] }",
      `{ allow: [lint], ${grant("staged", "lint", "/opt/x")} }`,
      `{ allow: [lint, python3], ${grant("interpreter", "python3", "/opt/x")} }`,
      `{ allow: [lint, native], ${grant("interpreter", "native", bin)} }`,
      `{ allow: [lint, native], ${grant("staged", "native", bin)} }`,
    ];
    for (const shell of accepted) assert.doesNotThrow(() => judge(shell), shell);
    const refused = [
      `{ allow: [lint, python3.12], ${grant("interpreter", "python3.12", "/opt/x")} }`,
      `{ allow: [lint, native], ${grant("staged", "native", bin.slice(0, -1))} }`,
    ];
    for (const shell of refused) assert.throws(() => judge(shell), { code: "E-CAP-006" }, shell);
    for (const floor of ["advisory", "scoped"] as const) assert.doesNotThrow(() => judge("{ allow: [lint] }", floor));
  } finally {
    await Deno.remove(bin, { recursive: true });
  }
});
