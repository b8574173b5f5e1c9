import assert from "node:assert/strict";
import { MurError } from "../base/errors.ts";
import { VERSION } from "../base/version.ts";
import { compileC } from "../sandbox/confine_build.ts";
import { binaryName, chosenForm, chosenTargets } from "./build_binaries.ts";
import { compilersFor, DENO_VERSION, hostTarget, TARGETS } from "./build_target.ts";
import { compileArguments, hasCompileBase } from "./compile_form.ts";
import { inCache, portableFile, storedPart } from "./portable_form.ts";

const ROOT = new URL("../", import.meta.url);

Deno.test("every document starts the Deno that programs carry", async () => {
  const documents = ["README.md", ...[...Deno.readDirSync(new URL("docs/", ROOT))].map(({ name }) => `docs/${name}`)];
  let seen = 0;
  for (const path of documents.filter((path) => path.endsWith(".md"))) {
    for (const [, version] of (await Deno.readTextFile(new URL(path, ROOT))).matchAll(/\bdeno@([0-9.]+[0-9])/g)) {
      assert.equal(version, DENO_VERSION, path);
      seen++;
    }
  }
  assert.ok(seen > 3);
  assert.equal(Deno.version.deno, DENO_VERSION);
});

Deno.test("targets and forms are those that exist", () => {
  assert.deepEqual(chosenTargets([]), [hostTarget()]);
  assert.deepEqual(chosenTargets(["darwin-aarch64", "linux-x86_64"]).map(({ triple }) => triple), [
    "aarch64-apple-darwin",
    "x86_64-unknown-linux-gnu",
  ]);
  assert.throws(() => chosenTargets(["linux-riscv64"]), /linux-x86_64, linux-aarch64/);
  assert.equal(chosenForm("portable"), "portable");
  assert.throws(() => chosenForm("zip"), /portable, compile and auto/);
  for (const target of TARGETS) assert.equal(binaryName("mur", target), `mur-${VERSION}-${target.name}`);
  const foreign = TARGETS.find(({ os }) => os !== Deno.build.os)!;
  assert.deepEqual(compilersFor(foreign), [], "no compiler for another system");
});

Deno.test("who lacks what another processor takes is told the packages", {
  ignore: Deno.build.os !== "linux",
}, async () => {
  const target = TARGETS.find(({ os, arch }) => os === "linux" && arch !== Deno.build.arch)!;
  const [cross] = compilersFor(target);
  const [processor, compiler] = target.arch === "aarch64" ? ["arm64", "aarch64"] : ["amd64", "x86-64"];
  const missing = { ...cross!, command: ["no-such-compiler"] as const };
  await assert.rejects(compileC([], "/nowhere", [], [missing], "it"), (error) => {
    assert.ok(error instanceof MurError);
    assert.match(error.message, /no-such-compiler: not found/);
    for (const name of [`gcc-${compiler}-linux-gnu`, `libc6-dev-${processor}-cross`, `libzstd-dev:${processor}`]) {
      assert.ok(error.hint?.includes(name), `${name} in ${error.hint}`);
    }
    return true;
  });
  assert.equal(compilersFor(hostTarget()).some(({ hint }) => hint !== undefined), false);
});

Deno.test("the compile form isolates the program as the portable one does, and takes in its whole folder", () => {
  const program = { folder: "/f", entry: "main.js", flags: ["--allow-all", "--v8-flags=--x"] };
  const args = compileArguments(program, TARGETS[1]!, "/out");
  assert.equal(args[0], "compile");
  assert.equal(args.at(-1), "/f/main.js");
  for (const flag of ["--no-config", "--no-lock", "--no-remote", "--no-npm", "--cached-only", ...program.flags]) {
    assert.ok(args.includes(flag), flag);
  }
  const after = (flag: string) => args[args.indexOf(flag) + 1];
  assert.deepEqual([after("--include"), after("--output"), after("--target")], [
    "/f",
    "/out",
    "aarch64-unknown-linux-gnu",
  ]);
  assert.ok(hasCompileBase({ get: () => "/denort" }));
  assert.ok(!hasCompileBase({ get: () => "" }) && !hasCompileBase({ get: () => undefined }));
});

Deno.test("a part's name follows from its files: content, names, order and rights, and not from how it is stored", async () => {
  const file = (path: string, text: string, executable = false) => ({
    path,
    bytes: new TextEncoder().encode(text),
    executable,
  });
  const name = async (files: ReturnType<typeof file>[], compress = false) =>
    (await storedPart({ name: "p", files }, compress)).directory;
  const one = await name([file("a", "x"), file("b", "y")]);
  assert.match(one, /^p-[0-9a-f]{32}$/);
  assert.equal(await name([file("a", "x"), file("b", "y")], true), one);
  const others = [
    [file("a", "xy"), file("b", "")],
    [file("a", "x"), file("c", "y")],
    [file("b", "y"), file("a", "x")],
    [file("a", "x", true), file("b", "y")],
    [file("a", "x")],
  ];
  const names = await Promise.all(others.map((files) => name(files)));
  assert.equal(new Set([one, ...names]).size, others.length + 1);
  await assert.rejects(name([file("a\tb", "x")]), /cannot be the name/);
});

Deno.test("the list of contents says where everything lies", async () => {
  const part = await storedPart(
    { name: "p", files: [{ path: "x", bytes: new TextEncoder().encode("hello"), executable: true }] },
    false,
  );
  const pieces = await portableFile(new Uint8Array(100), [part], { part, path: "x" }, ["name", inCache(part, "x")]);
  const whole = new Uint8Array(await new Blob([...pieces]).arrayBuffer());
  const view = new DataView(whole.buffer, whole.length - 56);
  const [offset, length] = [Number(view.getBigUint64(0, true)), Number(view.getBigUint64(8, true))];
  assert.equal(offset, 105);
  assert.equal(offset + length + 56, whole.length);
  const lines = new TextDecoder().decode(whole.subarray(offset, offset + length)).trimEnd().split("\n");
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode("hello"))).toHex();
  assert.deepEqual(lines, [
    `part\t${part.directory}\t100\t5\t${hash}\tstored`,
    "file\t5\t700\tx",
    `run\t${part.directory}/x`,
    "arg\tname",
    `arg\t%/${part.directory}/x`,
  ]);
});
