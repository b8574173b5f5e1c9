import assert from "node:assert/strict";
import { hostTarget, TARGETS } from "./build_target.ts";
import { carriedPackages, NOT_CARRIED, ownPackages, thirdPartyLicences } from "./licences.ts";
import { hostNativePackages, writeToolchain } from "./toolchain_files.ts";

const ROOT = new URL("../", import.meta.url);

Deno.test("what a package needs is carried with it, at every version it is needed in", () => {
  const imports = {
    "a": "npm:a@1.0.0",
    "@s/b/deep.js": "npm:@s/b@2.0.0/deep.js",
    "own": "./own.ts",
    "ajv": "npm:ajv@8.0.0",
  };
  const npm = {
    "a@1.0.0": { dependencies: ["c@1.0.0", "d"] },
    "@s/b@2.0.0_d@4.0.0": { dependencies: ["c@2.0.0-rc.1", "d"] },
    "c@1.0.0": {},
    "c@2.0.0-rc.1": { dependencies: ["a"] },
    "d@4.0.0": { dependencies: ["binaryen"] },
    "dd@4.0.0": {},
    "ajv@8.0.0": { dependencies: ["only-tests"] },
    "binaryen@1.0.0": {},
    "only-tests@1.0.0": {},
  };
  const names = carriedPackages(imports, { npm }).map(({ name, version }) => `${name} ${version}`);
  assert.deepEqual(names, ["@s/b 2.0.0", "a 1.0.0", "c 1.0.0", "c 2.0.0-rc.1", "d 4.0.0"]);
  assert.throws(() => carriedPackages({ x: "npm:x@1.0.0" }, { npm }), /deno\.lock has no x@1\.0\.0/);
});

Deno.test("the packages of this checkout are its imports and theirs", async () => {
  const names = (await ownPackages()).map(({ name }) => name);
  for (const name of ["@a2a-js/sdk", "jose", "@bytecodealliance/preview2-shim", "esbuild", "gpt-tokenizer"]) {
    assert.ok(names.includes(name), name);
  }
  for (const name of NOT_CARRIED) assert.ok(!names.includes(name), name);
});

Deno.test("everything the tools of mur build are bundled from is among them", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const names = (await ownPackages()).map(({ name }) => name);
    const bundled = await writeToolchain(folder, await hostNativePackages());
    assert.ok(bundled.includes("@bytecodealliance/preview2-shim") && bundled.includes("typescript"), `${bundled}`);
    for (const name of bundled) assert.ok(names.includes(name), name);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("the licences name every package, Deno, the machine's own parts and the C libraries, each with a text", async () => {
  const text = await thirdPartyLicences([hostTarget()]);
  const sections = text.split(/^={80}\n(?=.+\n={80}$)/m).slice(1);
  const titles = sections.map((section) => section.slice(0, section.indexOf("\n")));
  for (const { name, version } of await ownPackages()) assert.ok(titles.includes(`${name} ${version}`), name);
  const { esbuildPackage, addonPackage, denoPackage } = hostTarget();
  for (const name of ["Murmur", "deno", esbuildPackage, addonPackage, denoPackage, "Zstandard", "GNU C Library"]) {
    if (name.startsWith("Z") && !await isInstalled("libzstd-dev")) continue;
    if (name.startsWith("GNU") && !await isInstalled("libc6-dev")) continue;
    assert.ok(titles.some((title) => title === name || title.startsWith(`${name} `)), name);
  }
  for (const section of sections) {
    const body = section.slice(section.indexOf("\n", section.indexOf("\n") + 1)).trim();
    assert.ok(body.length > 10, section);
  }
  // The notices a package passes on as well as its own licence.
  assert.match(text, /DefinitelyTyped|W3C/);
  assert.equal(new Set(titles).size, titles.length);
});

async function isInstalled(debian: string): Promise<boolean> {
  const apple = TARGETS.some(({ os, name }) => os === "darwin" && name === hostTarget().name);
  return !apple && await Deno.stat(`/usr/share/doc/${debian}/copyright`).then(() => true, () => false);
}

Deno.test("the page of dependencies has those packages, and no other", async () => {
  const page = await Deno.readTextFile(new URL("docs/dependencies.md", ROOT));
  const listed = [...page.matchAll(/^\| `([^`]+)`/gm)].map((match) => match[1]!);
  const { imports } = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT)));
  const direct = Object.values<string>(imports).map((target) => /^npm:((?:@[^/]+\/)?[^@/]+)@/.exec(target)?.[1]);
  const expected = new Set([
    ...direct.filter((name) => name !== undefined),
    ...(await ownPackages()).map((p) => p.name),
  ]);
  assert.deepEqual([...new Set(listed)].sort(), [...expected].sort());
});
