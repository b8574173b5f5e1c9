import assert from "node:assert/strict";
import { embeddedFile, hiddenModeOf, programPlaces, programStart, setEmbeddedPrograms } from "./program.ts";

const ENTRY = new URL("file:///checkout/runtime/component/host/main.ts");

Deno.test("only the exact hidden arguments ask for a hidden mode", () => {
  const hidden = programStart("translate-component", { checkoutEntry: ENTRY });
  assert.equal(hiddenModeOf([]), null);
  assert.equal(hiddenModeOf(["run", "component-host"]), null);
  assert.equal(hiddenModeOf(["--murmur-hidden-mode"]), null);
  assert.equal(hiddenModeOf(["--murmur-hidden-mode", "other"]), null);
  assert.equal(hiddenModeOf(["--murmur-hidden-mode", "component-host", "x"]), null);
  assert.equal(hiddenModeOf(["x", "--murmur-hidden-mode", "component-host"]), null);
  assert.equal(hiddenModeOf(["--murmur-hidden-mode", "component-host"]), "component-host");
  assert.equal(hidden.args.at(-1), ENTRY.href, "a checkout enters by its own module");
});

Deno.test("a component host is started without a permission and with its own environment", () => {
  for (const script of [null, "serve()"]) {
    const start = programStart("component-host", { checkoutEntry: ENTRY, script, v8Flags: ["--a", "--b"] });
    assert.equal(start.command, Deno.execPath());
    assert.deepEqual(start.args.filter((argument) => /^(-A|--allow)/.test(argument)), []);
    for (
      const flag of ["--no-prompt", "--no-remote", "--no-npm", "--no-config", "--deny-import", "--v8-flags=--a,--b"]
    ) {
      assert.ok(start.args.includes(flag), flag);
    }
    const names = Object.keys(start.env).filter((name) => name !== "DENO_DIR");
    assert.deepEqual(names, ["DENO_NO_PROMPT", "DENO_NO_UPDATE_CHECK", "NO_COLOR"]);
  }
});

Deno.test("a script is handed over on standard input, so that no file needs to be read", async () => {
  const script = 'Deno.stdout.writeSync(new TextEncoder().encode("grüße " + Deno.stdin.readSync(new Uint8Array(9))))';
  const start = programStart("component-host", { checkoutEntry: ENTRY, script });
  assert.deepEqual(start.reads, []);
  const child = new Deno.Command(start.command, {
    args: [...start.args],
    env: { ...start.env },
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(start.preamble!);
  await writer.write(new TextEncoder().encode("rest"));
  await writer.close();
  const { stdout, success } = await child.output();
  assert.ok(success);
  assert.equal(new TextDecoder().decode(stdout), "grüße 4");
});

Deno.test("what a bundle carries lies beside it, whatever its folder is called; a checkout carries nothing", () => {
  assert.deepEqual([embeddedFile("mur-confine"), programPlaces()], [null, []]);
  const [named, own] = ["MURMUR_MUR_BINARY", "MURMUR_PROGRAM_FILE"].map((name) => Deno.env.get(name));
  try {
    const folder = "/h#1 50%?/\u00fc cache/murmur";
    const entry = new URL("file:///");
    entry.pathname = encodeURI(`${folder}/mur-1/entry.js`).replaceAll("#", "%23").replaceAll("?", "%3F");
    setEmbeddedPrograms({ componentHost: "", bundle: entry.href });
    assert.equal(embeddedFile("toolchain/assets.json"), `${folder}/mur-1/toolchain/assets.json`);
    const cache = { path: folder, tree: true };
    Deno.env.set("MURMUR_MUR_BINARY", "/home/me/.local/bin/mur");
    assert.deepEqual(programPlaces(), [cache, { path: "/home/me/.local/bin/mur", tree: false }]);
    Deno.env.set("MURMUR_PROGRAM_FILE", "/home/me/.local/bin/mur");
    assert.deepEqual(programPlaces(), [cache, { path: "/home/me/.local/bin/mur", tree: false }]);
    Deno.env.set("MURMUR_MUR_BINARY", "/opt/other");
    assert.deepEqual(programPlaces().slice(1).map(({ path }) => path), ["/home/me/.local/bin/mur", "/opt/other"]);
    Deno.env.delete("MURMUR_PROGRAM_FILE");
    Deno.env.set("MURMUR_MUR_BINARY", "mur");
    assert.deepEqual(programPlaces(), [cache], "a relative name is no place");
    // The translator reads the bundle and no project, no package cache.
    const { args } = programStart("translate-component", { checkoutEntry: ENTRY });
    for (const flag of ["--no-config", "--no-npm", "--no-remote"]) assert.ok(args.includes(flag), flag);
    assert.deepEqual(args.slice(-3), [entry.href, "--murmur-hidden-mode", "translate-component"]);
  } finally {
    for (const [name, value] of [["MURMUR_MUR_BINARY", named], ["MURMUR_PROGRAM_FILE", own]] as const) {
      if (value === undefined) Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
  }
});
