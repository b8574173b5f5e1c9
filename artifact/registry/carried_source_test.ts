import assert from "node:assert/strict";
import { writeZip } from "../zip_writer.ts";
import { carriedSource, carryArchive } from "./carried_source.ts";

const text = (value: string) => new TextEncoder().encode(value);
const HOST = "linux-x86_64";

async function withCarried(action: (directory: string, archive: Uint8Array<ArrayBuffer>) => Promise<void>) {
  const directory = await Deno.makeTempDir();
  try {
    const archive = await writeZip([
      { name: "murmur.yaml", bytes: text("name: a\n") },
      { name: "data/z.txt", bytes: text("z".repeat(1000)) },
      { name: "a.wasm", bytes: text("") },
    ]);
    await carryArchive(directory, "a-1.0.0", archive, 1 << 20);
    await action(directory, archive);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("what is carried is found by name, with and without its version, as the very bytes that were laid out", async () => {
  await withCarried(async (directory, archive) => {
    const source = carriedSource(directory);
    for (const version of ["1.0.0", null]) {
      const answer = await source.fetch({ name: "a", version, platform: HOST });
      assert.ok(answer.kind === "found");
      assert.deepEqual(answer.bytes, archive);
    }
    for (const [name, version] of [["a", "1.0.1"], ["b", null], ["a-1", null], ["", null]] as const) {
      assert.equal((await source.fetch({ name, version, platform: HOST })).kind, "not-found", `${name} ${version}`);
    }
  });
});

Deno.test("a file that was changed is refused, not packed", async () => {
  await withCarried(async (directory) => {
    await Deno.writeTextFile(`${directory}/a-1.0.0/data/z.txt`, "changed");
    await assert.rejects(carriedSource(directory).fetch({ name: "a", version: "1.0.0", platform: HOST }), {
      code: "E-REG-002",
    });
  });
});

Deno.test("an archive that another program packed is not carried", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const archive = await writeZip([{ name: "murmur.yaml", bytes: text("name: a\n") }]);
    // The time of day in the local header.
    archive[10]! ^= 1;
    await assert.rejects(carryArchive(directory, "a-1", archive, 1 << 20), /not the same/);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
