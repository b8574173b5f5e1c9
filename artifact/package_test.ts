import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../base/errors.ts";
import { EMPTY_COMPONENT, packedArtifact, packedNativeTool } from "../tests/support/packed_artifact.ts";
import { withTempDir, writeFiles } from "../tests/support/cli_context.ts";
import { parseArtifactManifest } from "./manifest/artifact_manifest.ts";
import {
  archiveName,
  declaredPathProblem,
  openPackage,
  planPackage,
  readPayload,
  readPlannedFiles,
  selectComponent,
} from "./package.ts";
import { isSafeEntryName } from "./zip_archive.ts";
import { writeZip } from "./zip_writer.ts";

const code = (expected: string, pattern = /./) => (error: unknown) => {
  assert.ok(error instanceof MurError, String(error));
  assert.equal(error.code, expected, error.message);
  assert.match(error.message, pattern);
  return true;
};

Deno.test("any declared path is refused or gets an archive name that stays below the root", () => {
  const part = fc.oneof(
    fc.constantFrom("..", ".", "", "a", "C:", "\\", "..\\..", "x.wasm"),
    fc.string({ maxLength: 6 }),
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 6 }), fc.constantFrom("/", "\\"), (parts, separator) => {
      const declared = parts.join(separator);
      if (declaredPathProblem(declared) !== null) return;
      assert.ok(isSafeEntryName(archiveName(declared)), JSON.stringify(declared));
    }),
    { numRuns: 2000 },
  );
});

Deno.test("the component is root capsule.wasm, else the only root .wasm; folders, upper case and other ends do not count", () => {
  assert.equal(selectComponent(["murmur.yaml", "a.wasm"]), "a.wasm");
  assert.equal(selectComponent(["b.wasm", "capsule.wasm", "a.wasm"]), "capsule.wasm");
  assert.equal(selectComponent(["dir/capsule.wasm", "a.wasm"]), "a.wasm");
  assert.throws(() => selectComponent(["dir/a.wasm", "A.WASM", "a.wasm.txt"]), code("E-BLD-003", /^missing root/));
  assert.throws(() => selectComponent(["b.wasm", "a.wasm"]), code("E-BLD-003", /: a\.wasm, b\.wasm$/));
});

Deno.test("a file exchanged for a link after it was judged is refused when it is read", async () => {
  await withTempDir(async (directory) => {
    const text = "name: a\nversion: '1'\nruntime: tool\nexecution: static\nrequires_files: [dir/data, plain]\n";
    await writeFiles(directory, {
      "murmur.yaml": text,
      "dir/data": "mine",
      "plain": "mine",
      "secret/data": "not mine",
    });
    const plan = await planPackage(directory, parseArtifactManifest(text, "murmur.yaml"), `${directory}/a.mur.zip`);
    assert.deepEqual(readPlannedFiles(directory, plan).map(({ name }) => name), ["dir/data", "plain"]);
    await Deno.remove(`${directory}/plain`);
    await Deno.symlink(`${directory}/secret/data`, `${directory}/plain`);
    assert.throws(() => readPlannedFiles(directory, plan), code("E-BLD-002", /'plain' is a symbolic link/));
    await Deno.remove(`${directory}/plain`);
    await writeFiles(directory, { plain: "mine" });
    await Deno.remove(`${directory}/dir`, { recursive: true });
    await Deno.symlink(`${directory}/secret`, `${directory}/dir`);
    assert.throws(() => readPlannedFiles(directory, plan), code("E-BLD-002", /symbolic link/));
  });
});

Deno.test("the payload is the component, the binary of the artifact's own name, the skill's text, or none", async () => {
  const payloadOf = async (bytes: Uint8Array<ArrayBuffer>) => {
    const payload = await readPayload(await openPackage(bytes, "x", 1e6));
    return payload === null ? null : new TextDecoder().decode(payload);
  };
  assert.equal(await payloadOf(await packedNativeTool("t", "binary")), "binary");
  assert.equal(await payloadOf(await packedArtifact({ name: "s" })), "# s");
  assert.equal(
    await payloadOf(
      await packedArtifact({ name: "c", runtime: "capsule", manifest: "execution: static\n", files: {} }),
    ),
    null,
  );
  const component = await openPackage(await packedArtifact({ name: "t", runtime: "tool" }), "x", 1e6);
  assert.deepEqual(await readPayload(component), EMPTY_COMPONENT);
  const misnamed = await packedArtifact({
    name: "t",
    runtime: "tool",
    manifest: "implementation: native\n",
    files: { "bin/u": "" },
  });
  await assert.rejects(payloadOf(misnamed), code("E-IO-003", /no 'bin\/t'/));
  await assert.rejects(
    payloadOf(await packedArtifact({ name: "s", files: { "SKILL.md": "" } })),
    code("E-IO-003", /no 'skill\.md'/),
  );
});

Deno.test("an archive without murmur.yaml at its root, or with one that is too large, is unusable", async () => {
  const bytes = await writeZip([{ name: "dir/murmur.yaml", bytes: new Uint8Array() }]);
  await assert.rejects(openPackage(bytes, "x", 1e6), code("E-IO-003", /no murmur\.yaml/));
  const huge = await writeZip([{ name: "murmur.yaml", bytes: new Uint8Array(5 * 1024 * 1024).fill(0x23) }]);
  const hintOf = async (ceiling: number) => {
    const error = await openPackage(huge, "x", ceiling).catch((error: unknown) => error);
    assert.ok(code("E-IO-003", /murmur\.yaml.*more than \d+ bytes/)(error));
    return (error as MurError).hint;
  };
  assert.match(await hintOf(1e6) ?? "", /MURMUR_MAX_ARTIFACT_DECOMPRESSED_BYTES/);
  assert.equal(await hintOf(1e9), undefined, "raising the ceiling does not help");
});

Deno.test("a payload above the ceiling is not inflated", async () => {
  const bytes = await packedArtifact({ name: "s", files: { "skill.md": "x".repeat(2000) } });
  const opened = await openPackage(bytes, "x", 1999);
  await assert.rejects(readPayload(opened), code("E-IO-003", /more than 1999 bytes/));
});
