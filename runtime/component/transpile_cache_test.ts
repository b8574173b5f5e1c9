import assert from "node:assert/strict";
import { sha256Hex } from "../../artifact/sha256.ts";
import { MurError } from "../../base/errors.ts";
import { textTool } from "./testing/guests.ts";
import { decodeTranslation, encodeTranslation } from "./translation.ts";
import { TranspileCache } from "./transpile_cache.ts";

async function withDirectory(work: (directory: string) => Promise<void>): Promise<void> {
  const directory = Deno.makeTempDirSync();
  try {
    await work(directory);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

Deno.test("a component is translated once; a damaged or lost file is made again", async () => {
  await withDirectory(async (directory) => {
    const path = `${directory}/home/compiled`;
    const bytes = await textTool("(i32.const 1024)");
    const hash = await sha256Hex(bytes);
    const first = await new TranspileCache(path).translate(bytes, hash, "tool 'x'");
    assert.deepEqual(first.names.exports, ["murmur:tool/run@0.1.0"]);
    assert.equal(Deno.statSync(path).mode! & 0o777, 0o700);
    const [entry, ...others] = [...Deno.readDirSync(path)];
    assert.equal(others.length, 0, "no staging file is left");
    assert.ok(entry!.name.startsWith(`${hash}.`));
    const file = `${path}/${entry!.name}`;
    assert.equal(Deno.statSync(file).mode! & 0o777, 0o600);

    const timed = async () => {
      const from = performance.now();
      const translation = await new TranspileCache(path).translate(bytes, hash, "tool 'x'");
      return { translation, ms: performance.now() - from };
    };
    const written = Deno.statSync(file).ino;
    const hit = await timed();
    assert.deepEqual(hit.translation.code, first.code);
    assert.equal(Deno.statSync(file).ino, written, "a hit writes nothing");

    const good = Deno.readFileSync(file);
    for (const damage of ["flip", "cut", "empty", "longer"] as const) {
      const bad = damage === "longer"
        ? new Uint8Array([...good, 0])
        : good.slice(0, damage === "cut" ? good.length - 5 : damage === "empty" ? 0 : good.length);
      if (damage === "flip") bad[good.length >> 1]! ^= 1;
      Deno.writeFileSync(file, bad);
      assert.deepEqual((await timed()).translation.code, first.code, damage);
      assert.deepEqual(Deno.readFileSync(file), good, `${damage}: the file is whole again`);
    }
    Deno.removeSync(path, { recursive: true });
    assert.deepEqual((await timed()).translation.code, first.code);
  });
});

Deno.test("calls at the same time and caches beside each other do no harm", async () => {
  await withDirectory(async (path) => {
    const bytes = await textTool("(i32.const 1032)");
    const hash = await sha256Hex(bytes);
    const one = new TranspileCache(path);
    const two = new TranspileCache(path);
    const all = await Promise.all([one, one, two, two].map((cache) => cache.translate(bytes, hash, "tool 'x'")));
    for (const each of all) assert.deepEqual(each.code, all[0]!.code);
    assert.equal([...Deno.readDirSync(path)].length, 1);
  });
});

Deno.test("a cache that is no directory, or a link, is not used", async () => {
  await withDirectory(async (directory) => {
    const bytes = await textTool("(i32.const 1040)");
    const hash = await sha256Hex(bytes);
    Deno.writeTextFileSync(`${directory}/file`, "");
    const translation = await new TranspileCache(`${directory}/file`).translate(bytes, hash, "tool 'x'");
    assert.equal(translation.code!.modules.length > 0, true);

    const path = `${directory}/compiled`;
    await new TranspileCache(path).translate(bytes, hash, "tool 'x'");
    const [entry] = [...Deno.readDirSync(path)];
    Deno.renameSync(`${path}/${entry!.name}`, `${directory}/elsewhere`);
    Deno.symlinkSync(`${directory}/elsewhere`, `${path}/${entry!.name}`);
    const before = Deno.readFileSync(`${directory}/elsewhere`);
    const again = await new TranspileCache(path).translate(bytes, hash, "tool 'x'");
    assert.deepEqual(again.code, translation.code);
    assert.deepEqual(Deno.readFileSync(`${directory}/elsewhere`), before);
  });
});

Deno.test("a translation in another's place, or one that another user could have written, is not taken", async () => {
  await withDirectory(async (directory) => {
    const path = `${directory}/compiled`;
    const bytes = await textTool("(i32.const 1040)");
    const other = await textTool("(i32.const 1056)");
    const [hash, otherHash] = [await sha256Hex(bytes), await sha256Hex(other)];
    const own = await new TranspileCache(path).translate(bytes, hash, "tool 'x'");
    await new TranspileCache(path).translate(other, otherHash, "tool 'y'");
    const named = (sha256: string) => [...Deno.readDirSync(path)].find(({ name }) => name.startsWith(sha256))!.name;
    const file = `${path}/${named(hash)}`;
    const right = Deno.readFileSync(file);
    Deno.copyFileSync(`${path}/${named(otherHash)}`, file);
    assert.equal(await new TranspileCache(path).byComponent(hash), null);
    assert.deepEqual((await new TranspileCache(path).translate(bytes, hash, "tool 'x'")).code, own.code);
    assert.deepEqual(Deno.readFileSync(file), right);

    for (const [target, mode, safe] of [[file, 0o620, 0o600], [path, 0o777, 0o700]] as const) {
      Deno.chmodSync(target, mode);
      assert.equal(await new TranspileCache(path).byComponent(hash), null);
      Deno.chmodSync(target, safe);
      assert.deepEqual((await new TranspileCache(path).byComponent(hash))?.code, own.code);
    }
    if (Deno.uid() === 0) {
      Deno.chownSync(file, 65_534, null);
      assert.equal(await new TranspileCache(path).byComponent(hash), null);
    }
  });
});

Deno.test("code put away is read again from the file it came from, deleted or not, and never from a changed one", async () => {
  await withDirectory(async (path) => {
    const bytes = await textTool("(i32.const 1024)");
    const hash = await sha256Hex(bytes);
    const fresh = await new TranspileCache(path).translate(bytes, hash, "tool 'x'");
    const code = structuredClone(fresh.code!);
    const [entry] = [...Deno.readDirSync(path)];
    const file = `${path}/${entry!.name}`;
    const cached = (await new TranspileCache(path).byComponent(hash))!;
    const changed = (await new TranspileCache(path).byComponent(hash))!;
    for (const component of [fresh, cached, changed]) {
      const { buffer } = component.code!.glue;
      component.putAway();
      component.putAway();
      assert.equal(component.code, null);
      assert.equal(buffer.byteLength, 0, "the memory is given back at once");
      assert.deepEqual(await component.load(), code);
      assert.deepEqual(component.names.exports, code.exports);
    }
    changed.putAway();
    const good = Deno.readFileSync(file);
    const other = good.slice();
    other[other.length - 1]! ^= 1;
    Deno.writeFileSync(file, other);
    assert.equal(await changed.load(), null);
    const valid = await encodeTranslation({ ...code, glue: new TextEncoder().encode("return 0") });
    Deno.writeFileSync(file, new Uint8Array([...good.subarray(0, hash.length), ...valid]));
    assert.equal(await changed.load(), null, "another translation, whole in itself, is not the one that was judged");
    Deno.writeFileSync(file, good);
    assert.deepEqual(await changed.load(), code);

    Deno.removeSync(file);
    cached.putAway();
    assert.deepEqual(await cached.load(), code);
    for (const component of [fresh, cached, changed]) component[Symbol.dispose]();
  });
});

Deno.test("code that could not be kept in a file stays", async () => {
  await withDirectory(async (path) => {
    Deno.writeTextFileSync(`${path}/file`, "");
    const bytes = await textTool("(i32.const 1024)");
    const component = await new TranspileCache(`${path}/file`).translate(bytes, await sha256Hex(bytes), "tool 'x'");
    component.putAway();
    assert.equal(component.code!.modules.length > 0, true);
  });
});

Deno.test("what was refused is not kept", async () => {
  await withDirectory(async (path) => {
    const bytes = (await textTool("(i32.const 1024)")).slice(0, 100);
    const cache = new TranspileCache(path);
    for (let round = 0; round < 2; round++) {
      await assert.rejects(
        cache.translate(bytes, await sha256Hex(bytes), "tool 'x'"),
        (error: unknown) => error instanceof MurError && error.code === "E-RUN-001",
      );
    }
    assert.deepEqual([...Deno.readDirSync(path)], []);
  });
});

Deno.test("an encoded translation is whole or nothing", async () => {
  const translation = {
    imports: ["a:b/c@0.1.0"],
    exports: [],
    usedImports: ["a:b/c"],
    glue: new TextEncoder().encode("return 'grüße'"),
    modules: [
      { name: "one", sha256: "x", bytes: new Uint8Array([1, 2]) },
      { name: "two", sha256: "y", bytes: new Uint8Array() },
    ],
  };
  const bytes = await encodeTranslation(translation);
  assert.deepEqual(await decodeTranslation(bytes), translation);
  for (let at = 0; at < bytes.length; at++) {
    const bad = bytes.slice();
    bad[at]! ^= 0x40;
    assert.equal(await decodeTranslation(bad), null);
    assert.equal(await decodeTranslation(bytes.slice(0, at)), null);
  }
});
