import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../base/errors.ts";
import { canMount, onSmallDisk } from "../tests/support/own_mounts.ts";
import {
  EMPTY_LOCK,
  findPin,
  formatLock,
  lockConflict,
  type LockEntry,
  type LockFile,
  parseLock,
  pinArtifact,
  pinnedHash,
  pinProblem,
  pinRefusal,
  readLock,
  type ResolvedArtifact,
  updateLock,
} from "./lockfile.ts";

const LOCK_MODULE = new URL("./lockfile.ts", import.meta.url).href;
const REPOSITORY = new URL("..", import.meta.url);
const SESSION = "ses_0190a1b2c3d44e5f8a9b0c1d2e3f4a5b";
const HASH = "4f".repeat(32);
const OTHER = "7a".repeat(32);

const SAMPLE = `lock_version: 2
artifacts:
  - name: page-tool
    resolved_version: 0.3.0
    sha256:
      any: ${HASH}
    origin: operator
  - name: git-tool
    resolved_version: 1.0.0
    sha256:
      platforms:
        darwin-aarch64: ${OTHER}
        linux-x86_64: ${HASH}
    origin: runtime
    session: ${SESSION}
`;

const anyEntry = (name: string, more: Partial<LockEntry> = {}): LockEntry => ({
  name,
  version: "1.0.0",
  hashes: { kind: "any", sha256: HASH },
  origin: "operator",
  session: null,
  ...more,
});
const resolved = (name: string, more: Partial<ResolvedArtifact> = {}): ResolvedArtifact => ({
  name,
  version: "1.0.0",
  platform: null,
  sha256: HASH,
  ...more,
});
const platforms = (map: Record<string, string>) => ({
  kind: "platforms" as const,
  sha256: new Map(Object.entries(map)),
});
const OPERATOR = { origin: "operator" } as const;
const RUNTIME = { origin: "runtime", session: SESSION } as const;

async function withDirectory(work: (directory: string) => Promise<void>) {
  const directory = await Deno.makeTempDir();
  try {
    await work(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

function refused(text: string, pattern: RegExp) {
  assert.throws(() => parseLock(text, "murmur.lock"), (error) => {
    assert.ok(error instanceof MurError);
    assert.equal(error.code, "E-RUN-003");
    assert.match(error.message, pattern);
    assert.match(error.hint!, /mur install/);
    return true;
  });
}

Deno.test("the documented form is read and written back byte for byte", () => {
  const lock = parseLock(SAMPLE, "murmur.lock");
  assert.deepEqual(lock.entries, [
    { name: "page-tool", version: "0.3.0", hashes: { kind: "any", sha256: HASH }, origin: "operator", session: null },
    {
      name: "git-tool",
      version: "1.0.0",
      hashes: platforms({ "darwin-aarch64": OTHER, "linux-x86_64": HASH }),
      origin: "runtime",
      session: SESSION,
    },
  ]);
  assert.equal(formatLock(lock), SAMPLE);
  assert.equal(formatLock(EMPTY_LOCK), "lock_version: 2\nartifacts: []\n");
});

Deno.test("any lock that can be written is read back as itself", () => {
  const text = fc.oneof(
    fc.stringMatching(/^[ -~]*[!-~][ -~]*$/),
    fc.constantFrom("1.10", "null", "true", "~", "0x1", "1e3"),
  );
  const hash = fc.oneof(fc.stringMatching(/^[0-9a-f]{64}$/), fc.constantFrom("1".repeat(64), `${"1".repeat(30)}e3`));
  const entry: fc.Arbitrary<LockEntry> = fc.record({
    name: fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,20}$/),
    version: text,
    hashes: fc.oneof(
      hash.map((sha256) => ({ kind: "any" as const, sha256 })),
      fc.dictionary(fc.stringMatching(/^[a-z0-9_]+-[a-z0-9_]+$/), hash, { minKeys: 1, noNullPrototype: true }).map((
        map,
      ) => ({
        kind: "platforms" as const,
        sha256: new Map(Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1))),
      })),
    ),
    session: fc.option(text),
  }).map((made) => ({ ...made, origin: made.session === null ? "operator" : "runtime" }));
  fc.assert(fc.property(fc.uniqueArray(entry, { selector: (made) => made.name, maxLength: 6 }), (entries) => {
    const text = formatLock({ entries });
    assert.deepEqual(parseLock(text, "murmur.lock").entries, entries);
    assert.equal(formatLock(parseLock(text, "murmur.lock")), text);
  }));
});

Deno.test("any lock_version but 2 is refused and never migrated", () => {
  for (const bad of ["1", "3", "'2'", "two", "", "[2]", "2.5"]) {
    refused(`lock_version: ${bad}\nartifacts: []\n`, /lock_version|version 2 only/);
  }
  refused("artifacts: []\n", /no lock_version/);
  refused(
    "lock_version: 1\nartifacts:\n  - name: a\n    resolved_version: '1'\n    sha256: { wasm: abc }\n",
    /version 2 only/,
  );
});

Deno.test("an invalid file or entry is refused with its place", () => {
  const entry = (body: string) => `lock_version: 2\nartifacts:\n  - ${body.replaceAll("\n", "\n    ")}\n`;
  const sound = `name: a\nresolved_version: "1"\nsha256: { any: ${HASH} }`;
  assert.equal(parseLock(entry(sound), "f").entries.length, 1);
  refused("a: [", /not a valid lock file/);
  refused("- a", /not a mapping/);
  refused("lock_version: 2\n", /'artifacts' is not a list/);
  refused("lock_version: 2\nartifacts: {}\n", /'artifacts' is not a list/);
  refused(entry("text"), /artifacts\[0\]: it is not a mapping/);
  refused(entry(sound.replace("name: a", "name: '  '")), /artifacts\[0\]\.name: it is missing or blank/);
  refused(entry(sound.replace("name: a", "name: [a]")), /artifacts\[0\]\.name: it is not a text/);
  refused(entry(sound.replace('"1"', '""')), /resolved_version: it is missing or blank/);
  refused(entry(sound.replace(`{ any: ${HASH} }`, "{}")), /either 'any' or 'platforms'/);
  refused(entry(sound.replace(`{ any: ${HASH} }`, "{ platforms: {} }")), /either 'any' or 'platforms'/);
  refused(entry(sound.replace("any:", "platforms: { linux-x86_64: aa }, any:")), /either 'any' or 'platforms'/);
  refused(entry(sound.replace(`{ any: ${HASH} }`, "abc")), /sha256: it is missing or no mapping/);
  refused(entry(sound.replace(HASH, "''")), /sha256\.any: the hash is empty/);
  refused(entry(sound.replace("any: ", "platforms: { '': ").replace(" }", " } }")), /platform tag is empty/);
  refused(entry(sound.replace(`any: ${HASH}`, "platforms: { linux-x86_64: '' }")), /hash of 'linux-x86_64' is empty/);
  refused(entry(sound + "\norigin: runtime"), /names its session/);
  refused(entry(sound + "\norigin: runtime\nsession: ' '"), /names its session/);
  refused(entry(sound + "\norigin: operator\nsession: s"), /has no session/);
  refused(entry(sound + "\nsession: s"), /has no session/);
  refused(entry(sound + "\norigin: other"), /neither operator nor runtime/);
  refused(
    SAMPLE + SAMPLE.slice(SAMPLE.indexOf("  - name: page-tool"), SAMPLE.indexOf("  - name: git")),
    /pinned twice/,
  );
  try {
    parseLock(SAMPLE.replace("origin: runtime", "origin: other"), "murmur.lock");
    assert.fail();
  } catch (error) {
    assert.equal((error as MurError).place?.line, 14);
  }
});

Deno.test("no text whatever makes the reader fail otherwise than by E-RUN-003", () => {
  fc.assert(fc.property(fc.string(), fc.nat(SAMPLE.length), (noise, at) => {
    try {
      parseLock(SAMPLE.slice(0, at) + noise + SAMPLE.slice(at), "f");
    } catch (error) {
      assert.ok(error instanceof MurError && error.code === "E-RUN-003");
    }
  }));
});

Deno.test("a full name matches by its bare half, in the lock and in the question", () => {
  const lock: LockFile = { entries: [anyEntry("local/a"), anyEntry("b")] };
  assert.equal(findPin(lock, "a")?.name, "local/a");
  assert.equal(findPin(lock, "murmur/b")?.name, "b");
  assert.equal(findPin(lock, "c"), undefined);
});

Deno.test("a platform is answered from the map alone when there is one, else by 'any'", () => {
  assert.equal(pinnedHash(anyEntry("a"), "linux-x86_64"), HASH);
  const native = anyEntry("a", { hashes: platforms({ "linux-x86_64": OTHER }) });
  assert.equal(pinnedHash(native, "linux-x86_64"), OTHER);
  assert.equal(pinnedHash(native, "darwin-aarch64"), undefined);
});

Deno.test("another version, another shape or another hash for the same key is a conflict, a new platform is none", () => {
  const native = anyEntry("a", { hashes: platforms({ "linux-x86_64": HASH }) });
  assert.equal(lockConflict(anyEntry("a"), resolved("a")), null);
  assert.match(lockConflict(anyEntry("a"), resolved("a", { version: "2" }))!, /pins 'a' at 1.0.0, resolved was 2/);
  assert.match(lockConflict(anyEntry("a"), resolved("a", { sha256: OTHER }))!, /another hash/);
  assert.match(
    lockConflict(anyEntry("a"), resolved("a", { platform: "linux-x86_64" }))!,
    /independent of the platform/,
  );
  assert.match(lockConflict(native, resolved("a"))!, /per platform/);
  assert.match(
    lockConflict(native, resolved("a", { platform: "linux-x86_64", sha256: OTHER }))!,
    /linux-x86_64 with another hash/,
  );
  assert.equal(lockConflict(native, resolved("a", { platform: "linux-x86_64" })), null);
  assert.equal(lockConflict(native, resolved("a", { platform: "darwin-aarch64", sha256: OTHER })), null);
});

Deno.test("pinning appends, merges platforms of one version, and replaces another version or shape in its place", () => {
  const lock: LockFile = {
    entries: [anyEntry("a"), anyEntry("b", { hashes: platforms({ "linux-x86_64": HASH }) }), anyEntry("c")],
  };
  const appended = pinArtifact(lock, resolved("local/d"), OPERATOR);
  assert.deepEqual(appended.entries.map((entry) => entry.name), ["a", "b", "c", "d"]);
  const merged = pinArtifact(lock, resolved("b", { platform: "darwin-aarch64", sha256: OTHER }), OPERATOR);
  assert.deepEqual(merged.entries[1]?.hashes, platforms({ "linux-x86_64": HASH, "darwin-aarch64": OTHER }));
  assert.deepEqual([merged.entries[0], merged.entries[2]], [lock.entries[0], lock.entries[2]]);
  const newer = pinArtifact(lock, resolved("b", { version: "2", platform: "darwin-aarch64", sha256: OTHER }), OPERATOR);
  assert.deepEqual(newer.entries[1]?.hashes, platforms({ "darwin-aarch64": OTHER }));
  const otherShape = pinArtifact(lock, resolved("b"), OPERATOR);
  assert.deepEqual(otherShape.entries[1]?.hashes, { kind: "any", sha256: HASH });
  assert.deepEqual(pinArtifact(lock, resolved("a", { sha256: OTHER }), OPERATOR).entries[0]?.hashes, {
    kind: "any",
    sha256: OTHER,
  });
});

Deno.test("an operator's write adopts a runtime pin, a runtime write leaves an operator's standing alone", () => {
  const pulled: LockFile = { entries: [anyEntry("a", RUNTIME)] };
  assert.deepEqual(pinArtifact(pulled, resolved("a"), OPERATOR).entries[0], anyEntry("a"));
  const again = pinArtifact(pulled, resolved("a"), { origin: "runtime", session: "ses_other" });
  assert.equal(again.entries[0]?.session, SESSION);
  const operators: LockFile = { entries: [anyEntry("a")] };
  assert.deepEqual(pinArtifact(operators, resolved("a"), RUNTIME).entries[0], anyEntry("a"));
  assert.deepEqual(pinArtifact(EMPTY_LOCK, resolved("a"), RUNTIME).entries, [anyEntry("a", RUNTIME)]);
});

Deno.test("a declared artifact needs an entry of its version with a hash for this platform", () => {
  const lock: LockFile = {
    entries: [anyEntry("a"), anyEntry("n", { hashes: platforms({ "linux-x86_64": HASH, "darwin-aarch64": OTHER }) })],
  };
  const problem = (name: string, version = "1.0.0", platform = "linux-x86_64") =>
    pinProblem(lock, { name, version }, platform);
  assert.equal(problem("a"), null);
  assert.equal(problem("local/n"), null);
  assert.deepEqual(problem("x"), { kind: "missing", text: "murmur.lock missing artifact entry for 'x'" });
  assert.match(pinRefusal(problem("x")!).hint ?? "", /installed from a file, delete murmur\.lock/);
  assert.match(problem("a", "2")!.text, /version mismatch for 'a': manifest requested 2, lock pinned 1\.0\.0$/);
  assert.match(
    problem("n", "1.0.0", "linux-aarch64")!.text,
    /no sha256 for 'n' on linux-aarch64: it pins darwin-aarch64, linux-x86_64$/,
  );
});

Deno.test("a missing file and an empty placeholder read as no lock, an unreadable one is an error", async () => {
  await withDirectory(async (directory) => {
    const path = `${directory}/murmur.lock`;
    assert.equal(await readLock(path), null);
    await Deno.writeTextFile(path, "");
    assert.equal(await readLock(path), null);
    await Deno.remove(path);
    await Deno.mkdir(path);
    await assert.rejects(() => readLock(path), (error) => error instanceof MurError && error.code === "E-IO-003");
  });
});

Deno.test("an update creates the directory and leaves nothing but the lock, also where an earlier writer died", async () => {
  await withDirectory(async (directory) => {
    const path = `${directory}/new/murmur.lock`;
    await updateLock(path, (lock) => {
      assert.equal(lock, null);
      return pinArtifact(EMPTY_LOCK, resolved("a"), OPERATOR);
    });
    await Deno.writeTextFile(`${directory}/new/.murmur.lock.123.tmp`, "torn");
    await updateLock(path, (lock) => pinArtifact(lock ?? EMPTY_LOCK, resolved("b"), OPERATOR));
    assert.deepEqual((await readLock(path))?.entries.map((entry) => entry.name), ["a", "b"]);
    assert.deepEqual([...Deno.readDirSync(`${directory}/new`)].map((entry) => entry.name), ["murmur.lock"]);
  });
});

Deno.test("a change that fails, gives nothing or gives an invalid lock leaves the file as it is", async () => {
  await withDirectory(async (directory) => {
    const path = `${directory}/murmur.lock`;
    await Deno.writeTextFile(path, SAMPLE);
    await assert.rejects(() =>
      updateLock(path, () => {
        throw new MurError("E-REG-005", "conflict");
      }), (error) => error instanceof MurError && error.code === "E-REG-005");
    await updateLock(path, () => null);
    await assert.rejects(
      () => updateLock(path, () => ({ entries: [anyEntry("")] })),
      (error) => error instanceof MurError,
    );
    await assert.rejects(() => updateLock(path, () => ({ entries: [anyEntry("a"), anyEntry("x/a")] })));
    assert.equal(await Deno.readTextFile(path), SAMPLE);
    assert.equal([...Deno.readDirSync(directory)].length, 1);
  });
});

function pinning(directory: string, prefix: string, count: string) {
  const script = `
    const { updateLock, pinArtifact, EMPTY_LOCK } = await import(${JSON.stringify(LOCK_MODULE)});
    for (let i = 0; i < ${count}; i++) {
      const pin = { name: ${JSON.stringify(prefix)} + i % 200, version: String(i), platform: null, sha256: ${
    JSON.stringify(HASH)
  } };
      await updateLock(${
    JSON.stringify(`${directory}/murmur.lock`)
  }, (lock) => pinArtifact(lock ?? EMPTY_LOCK, pin, { origin: "operator" }));
      if (i === 0) console.log("ready");
    }
  `;
  return new Deno.Command(Deno.execPath(), { args: ["eval", script], cwd: REPOSITORY, stdout: "piped" }).spawn();
}

Deno.test("processes that pin at the same time lose none of each other's pins", async () => {
  await withDirectory(async (directory) => {
    const children = ["a", "b", "c"].map((prefix) => pinning(directory, prefix, "20"));
    for (const child of children) assert.ok((await child.output()).success);
    assert.equal((await readLock(`${directory}/murmur.lock`))?.entries.length, 60);
  });
});

Deno.test("a writer killed at any moment leaves a whole lock", async () => {
  await withDirectory(async (directory) => {
    let least = 0;
    for (let round = 0; round < 15; round++) {
      const child = pinning(directory, `r${round}-`, "1e9");
      const reader = child.stdout.getReader();
      await reader.read();
      await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 40));
      child.kill("SIGKILL");
      await child.status;
      await reader.cancel();
      const entries = (await readLock(`${directory}/murmur.lock`))?.entries.length ?? 0;
      assert.ok(entries >= least, "a pin that was written is gone");
      least = entries;
    }
    assert.ok(least >= 15);
    await updateLock(`${directory}/murmur.lock`, (lock) => lock);
    assert.deepEqual([...Deno.readDirSync(directory)].map((entry) => entry.name), ["murmur.lock"]);
  });
});

Deno.test("a full disk fails the update and keeps the lock that was there", { ignore: !canMount() }, async () => {
  const output = await onSmallDisk(`
    const { updateLock, readLock, pinArtifact, EMPTY_LOCK } = await import(${JSON.stringify(LOCK_MODULE)});
    const path = DIRECTORY + "/murmur.lock";
    const entry = (name) => ({ name, version: "1", hashes: { kind: "any", sha256: "aa" }, origin: "operator", session: null });
    await updateLock(path, () => ({ entries: [entry("kept")] }));
    const many = { entries: Array.from({ length: 4000 }, (_, index) => entry("a" + index)) };
    const code = await updateLock(path, () => many).catch((error) => error.code);
    const names = [...Deno.readDirSync(DIRECTORY)].map((file) => file.name);
    console.log(JSON.stringify({ code, names, entries: (await readLock(path)).entries.map((each) => each.name) }));
  `);
  assert.deepEqual(JSON.parse(output), { code: "E-IO-003", names: ["murmur.lock"], entries: ["kept"] });
});
