import assert from "node:assert/strict";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { withTempDir } from "../tests/support/cli_context.ts";
import { executableDirectories, findHostFiles, resolveGrants, writableGrants } from "./command_grants.ts";
import { resolveShellAllow } from "./shell_allow.ts";

Deno.test("an allowed name may run every match, its loader and libraries, and nothing made later", async () => {
  await withTempDir(async (made) => {
    const dir = await Deno.realPath(made);
    for (const sub of ["a", "b"]) await Deno.mkdir(`${dir}/${sub}`);
    const sh = await Deno.realPath("/bin/sh");
    for (const name of ["a/tool", "b/real"]) await Deno.copyFile(sh, `${dir}/${name}`);
    await Deno.symlink("real", `${dir}/b/tool`);
    const path = `${dir}/a:${dir}/b:${dir}/c`;
    const allow = resolveShellAllow(["tool", "tool", "", "absent"], path);
    assert.deepEqual(allow.binaries.map(({ name, matches }) => [name, matches.map(({ invoked }) => invoked)]), [
      ["tool", [`${dir}/a/tool`, `${dir}/b/tool`]],
      ["absent", []],
    ]);
    assert.ok(allow.execute.includes(`${dir}/a/tool`) && allow.execute.includes(`${dir}/b/real`));
    assert.ok(!allow.execute.includes(`${dir}/b/tool`), "the list holds files, not names");
    assert.ok(allow.execute.some((file) => /\/ld-[^/]+$/.test(file)), "the loader");
    assert.equal(new Set(allow.execute).size, allow.execute.length);
    await Deno.mkdir(`${dir}/c`);
    await Deno.copyFile(sh, `${dir}/c/tool`);
    assert.ok(!allow.execute.includes(`${dir}/c/tool`));
  });
});

Deno.test("grants are looked up once, under their canonical paths, with the names that lead there", async () => {
  await withTempDir(async (made) => {
    const dir = await Deno.realPath(made);
    for (const sub of ["work", "records", "runtime", "py", "bin"]) await Deno.mkdir(`${dir}/${sub}`);
    await Deno.symlink("work", `${dir}/alias`);
    await Deno.symlink("py", `${dir}/python`);
    await Deno.symlink("/bin/sh", `${dir}/bin/tool`);
    await Deno.symlink("bin", `${dir}/programs`);
    const shell = `{ allow: [tool, other], interpreter_runtime: [{ binary: tool, dirs: [` +
      `{ path: ${dir}/python, list_dir: false }, { path: ${dir}/absent, list_dir: true }] }], ` +
      `staged_runtime: [{ binary: other, source_path: ${dir}/gone, pin: x }] }`;
    const { manifest } = parseCapsuleManifest(
      `name: a\nversion: "1"\ncapabilities: { shell: ${shell} }\n`,
      "murmur.yaml",
    );
    const grants = resolveGrants(manifest.capabilities, {
      directories: { workdir: `${dir}/alias`, records: `${dir}/records`, runtime: `${dir}/runtime` },
      allow: resolveShellAllow(["tool"], `${dir}/programs`),
      hostPaths: [],
      hostPathLinks: [],
    });
    assert.equal(grants.directories.workdir, `${dir}/work`);
    assert.deepEqual(grants.interpreterRuntime, [{ canonical: `${dir}/py`, listDir: false, kind: "directory" }]);
    assert.deepEqual(grants.stagedRuntime, [{ path: `${dir}/gone`, kind: "directory" }], "missing, so that it fails");
    assert.deepEqual(grants.hostFiles.filter(({ purpose }) => purpose !== "program configuration"), []);
    assert.equal(grants.resolvConf, null, "no network was granted");
    const sh = await Deno.realPath("/bin/sh");
    assert.deepEqual(grants.links, [
      { path: `${dir}/python`, target: `${dir}/py`, kind: "directory", inCanonicalDirectory: false },
      { path: `${dir}/alias`, target: `${dir}/work`, kind: "directory", inCanonicalDirectory: false },
      { path: `${dir}/programs/tool`, target: sh, kind: "file", inCanonicalDirectory: false },
      { path: `${dir}/bin/tool`, target: sh, kind: "file", inCanonicalDirectory: true },
    ]);
    assert.deepEqual(writableGrants(grants).map(({ path, exec }) => `${path} ${exec}`), [
      `${dir}/work false`,
      `${dir}/records/tmp false`,
      `${dir}/records/home false`,
    ]);
  });
});

Deno.test("files of the host are granted as far as it has them, those of the network to who may use it", () => {
  const [with_, without] = [findHostFiles(true), findHostFiles(false)];
  for (const { path, kind, purpose } of with_) {
    assert.equal(kind === "directory", Deno.statSync(path).isDirectory);
    assert.match(path, /^\/etc\/|^\/usr\/share\/ca-certificates$/);
    if (purpose === "program configuration") assert.ok((Deno.statSync(path).mode! & 0o004) !== 0, "everyone's to read");
  }
  assert.ok(with_.some(({ purpose }) => purpose === "name resolution"));
  assert.deepEqual(without, with_.filter(({ purpose }) => purpose === "program configuration"));
});

Deno.test("a composed root gets the directories of what may run, and of what lies beside its own parts the file alone", () => {
  assert.deepEqual(
    executableDirectories(["/opt/a/x", "/opt/a/y", "/init", "/etc/rc", "/tmp/t", "/tmp/d/t", "/dev/x"]),
    [
      { path: "/opt/a", kind: "directory" },
      { path: "/init", kind: "file" },
      { path: "/etc/rc", kind: "file" },
      { path: "/tmp/t", kind: "file" },
      { path: "/tmp/d", kind: "directory" },
    ],
  );
});
