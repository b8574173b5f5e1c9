import assert from "node:assert/strict";
import { roostManual } from "./roost_manual.ts";
import { installerWithKey, makeReleaseKey, readReleaseKey, signRelease } from "./release.ts";
import { parseArguments } from "../roost/arguments.ts";

Deno.test("a release is signed over every file, the same way each time, and the key's private half stays out of it", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const pem = await makeReleaseKey();
    const key = await readReleaseKey(pem);
    for (const name of ["b", "a"]) await Deno.writeTextFile(`${directory}/${name}`, name);
    await signRelease(directory, key);
    const [list, signature] = [`${directory}/checksums.txt`, `${directory}/checksums.txt.sig`];
    const lines = (await Deno.readTextFile(list)).trimEnd().split("\n").map((line) =>
      /^[0-9a-f]{64} {2}(.+)$/.exec(line)![1]
    );
    assert.deepEqual(lines, ["a", "b"]);
    const first = await Deno.readFile(signature);
    await signRelease(directory, await readReleaseKey(`\n${pem}\n`));
    assert.deepEqual(await Deno.readFile(signature), first);
    assert.match(key.publicKey, /^-----BEGIN PUBLIC KEY-----\n[\s\S]+\n-----END PUBLIC KEY-----$/);
    assert.ok(!key.publicKey.includes("PRIVATE"));
    await assert.rejects(readReleaseKey(key.publicKey), /PKCS #8 private key/);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("the installer has one place for the key", async () => {
  const script = await Deno.readTextFile(new URL("../install.sh", import.meta.url));
  assert.match(installerWithKey(script, "KEY\nLINES"), /release_key='KEY\nLINES'/);
  assert.throws(() => installerWithKey("no place", "x"), /no place/);
});

Deno.test("the manual of mur-roost has the options it takes", () => {
  const page = roostManual().replaceAll("\\-", "-");
  const flags = [...page.matchAll(/^\.B "(--[a-z-]+)/gm)].map((match) => match[1]!);
  assert.ok(flags.length >= 7, page);
  for (const flag of flags) {
    const value = flag === "--version" ? [] : [flag === "--spawn-allow" ? "local/x" : "1"];
    assert.notEqual(parseArguments([flag, ...value]).kind, "refused", flag);
  }
});
