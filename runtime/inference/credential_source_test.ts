import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { credentialEntry, type CredentialLookup, findCredential, resolveCredential } from "./credential_source.ts";

async function withConfig(use: (lookup: CredentialLookup, file: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  const file = `${directory}/config.yaml`;
  const env = new Map<string, string>();
  try {
    await use({
      configFile: file,
      env,
      injectable: ["INJECTED"],
      secrets: { get: (name) => env.get(`secret:${name}`) },
    }, file);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

const reference = (name: string) => ({ kind: "reference", name }) as const;
const setEnv = (lookup: CredentialLookup, name: string, value: string) =>
  (lookup.env as Map<string, string>).set(name, value);

Deno.test("the file comes before the environment, an empty entry counts as absent", async () => {
  await withConfig(async (lookup, file) => {
    setEnv(lookup, "KEY", "from-env");
    await Deno.writeTextFile(file, "credentials:\n  KEY: from-file\n");
    assert.equal((await (await findCredential(reference("KEY"), lookup))!.read(false)).key, "from-file");
    await Deno.writeTextFile(file, "credentials:\n  KEY: ''\n");
    const source = (await findCredential(reference("KEY"), lookup))!;
    assert.equal(source.kind, "environment");
    assert.equal((await source.read(true)).key, "from-env");
  });
});

Deno.test("a key found nowhere is an error that names the artifact, the field and both places", async () => {
  await withConfig(async (lookup, file) => {
    await assert.rejects(resolveCredential("driver-x", reference("KEY"), lookup), (error) => {
      assert.ok(error instanceof MurError);
      assert.equal(error.code, "E-MAN-003");
      for (
        const part of ["driver-x", "gateway.api_key", "${KEY}", "credentials.KEY", file, "environment variable KEY"]
      ) {
        assert.ok(error.message.includes(part), part);
      }
      return true;
    });
  });
});

Deno.test("a literal is the manifest's, an injectable name is looked up nowhere", async () => {
  await withConfig(async (lookup, file) => {
    const literal = await resolveCredential("a", { kind: "literal", value: " sk-1 " }, lookup);
    assert.deepEqual([literal.kind, literal.name, (await literal.read(true)).key], ["manifest", null, "sk-1"]);
    setEnv(lookup, "INJECTED", "environment");
    await Deno.writeTextFile(file, "credentials:\n  INJECTED: file\n");
    const injected = await resolveCredential("a", reference("INJECTED"), lookup);
    assert.deepEqual(await injected.read(false), { key: null, changed: false, unreadable: "not_injected" });
    assert.deepEqual(await injected.read(false), { key: null, changed: false, unreadable: null });
    setEnv(lookup, "secret:INJECTED", "one");
    assert.deepEqual(await injected.read(false), { key: "one", changed: false, unreadable: null });
    setEnv(lookup, "secret:INJECTED", "two");
    assert.deepEqual(await injected.read(false), { key: "two", changed: true, unreadable: null });
    assert.deepEqual(injected.values(), ["one", "two"]);
  });
});

Deno.test("a replaced key is seen at the next look, an unusable file leaves the last one and is told once", async () => {
  await withConfig(async (lookup, file) => {
    const write = (text: string) => Deno.writeTextFile(file, text);
    await write("credentials: { KEY: one }\n");
    const source = (await findCredential(reference("KEY"), lookup))!;
    assert.deepEqual(await source.read(false), { key: "one", changed: false, unreadable: null });
    await write("credentials: { KEY: two-longer }\n");
    assert.deepEqual(await source.read(false), { key: "two-longer", changed: true, unreadable: null });
    const states: readonly (readonly [string, string])[] = [
      ["credentials: {}\n", "no_entry"],
      ["credentials: { KEY: '   ' }\n", "empty_entry"],
      ["credentials: [\n", "unparseable"],
      ["- a\n", "unparseable"],
      ["credentials: { KEY: [1] }\n", "unparseable"],
    ];
    let last = "";
    for (const [text, reason] of states) {
      await write(text);
      const expected = reason === last ? null : reason;
      last = reason;
      assert.deepEqual(await source.read(false), { key: "two-longer", changed: false, unreadable: expected }, text);
      assert.deepEqual(await source.read(true), { key: "two-longer", changed: false, unreadable: null }, text);
    }
    await Deno.remove(file);
    assert.equal((await source.read(false)).unreadable, "missing");
    assert.equal((await source.read(false)).unreadable, null);
    await Deno.mkdir(file);
    assert.equal((await source.read(false)).unreadable, "unreadable");
    await Deno.remove(file);
    await write("credentials: { KEY: three }\n");
    assert.deepEqual(await source.read(false), { key: "three", changed: true, unreadable: null });
    await Deno.remove(file);
    assert.equal((await source.read(false)).unreadable, "missing");
    assert.deepEqual(source.values(), ["one", "two-longer", "three"]);
  });
});

Deno.test("a file of the same size and times is seen by its inode, and one written in place by a forced look", async () => {
  await withConfig(async (lookup, file) => {
    await Deno.writeTextFile(file, "credentials: { KEY: aaa }\n");
    const time = new Date(1_700_000_000_000);
    await Deno.utime(file, time, time);
    const source = (await findCredential(reference("KEY"), lookup))!;
    await Deno.writeTextFile(`${file}.new`, "credentials: { KEY: bbb }\n");
    await Deno.utime(`${file}.new`, time, time);
    await Deno.rename(`${file}.new`, file);
    assert.equal((await source.read(false)).key, "bbb");
    await Deno.writeTextFile(file, "credentials: { KEY: ccc }\n");
    assert.equal((await source.read(true)).key, "ccc");
  });
});

Deno.test("looks at the same time see one change once", async () => {
  await withConfig(async (lookup, file) => {
    await Deno.writeTextFile(file, "credentials: { KEY: one }\n");
    const source = (await findCredential(reference("KEY"), lookup))!;
    await Deno.writeTextFile(file, "credentials: { KEY: another }\n");
    const readings = await Promise.all(Array.from({ length: 8 }, () => source.read(true)));
    assert.ok(readings.every((reading) => reading.key === "another"));
    assert.equal(readings.filter((reading) => reading.changed).length, 1);
  });
});

Deno.test("an entry is its own text, no member of a prototype", () => {
  assert.deepEqual(credentialEntry("", "KEY"), { reason: "no_entry" });
  assert.deepEqual(credentialEntry("credentials: null", "KEY"), { reason: "no_entry" });
  assert.deepEqual(credentialEntry("credentials: {}", "constructor"), { reason: "no_entry" });
  assert.deepEqual(credentialEntry("credentials: { KEY: ' k ' }", "KEY"), { key: "k" });
});
