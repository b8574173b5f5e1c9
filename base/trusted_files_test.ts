import assert from "node:assert/strict";
import { RootedDir } from "./rooted_dir.ts";
import { KernelResolver, WalkResolver } from "./beneath.ts";
import { libc } from "./libc.ts";
import { RootedError } from "./rooted_error.ts";
import { TrustedFiles, type TrustedPath } from "./trusted_files.ts";

/** A workdir as an operator has it: the project itself. */
function project(): { readonly dir: string; readonly trusted: readonly TrustedPath[] } {
  const dir = Deno.makeTempDirSync();
  const work = `${dir}/work`;
  for (const path of ["work/.murmur/cache", "work/prompts/deep", "work/skills/s/docs", "work/free", "work/store"]) {
    Deno.mkdirSync(`${dir}/${path}`, { recursive: true });
  }
  const files = [
    "murmur.yaml",
    ".env",
    ".murmur/config.yaml",
    ".murmur/cache/x",
    "prompts/deep/system.md",
    "skills/s/SKILL.md",
    "skills/s/docs/more.md",
    "free/file",
    "store/lock-here",
  ];
  for (const path of files) Deno.writeTextFileSync(`${work}/${path}`, "trusted");
  Deno.symlinkSync("murmur.yaml", `${work}/by-link`);
  Deno.symlinkSync("free/../by-link", `${work}/by-two-links`);
  Deno.symlinkSync(".murmur", `${work}/dir-link`);
  Deno.symlinkSync("../prompts/deep/system.md", `${work}/free/prompt-link`);
  Deno.linkSync(`${work}/murmur.yaml`, `${work}/free/hard`);
  Deno.linkSync(`${work}/skills/s/docs/more.md`, `${work}/free/hard-in-tree`);
  // A trusted path that is a link, and one that goes through a link.
  Deno.writeTextFileSync(`${work}/free/real-lock`, "trusted");
  Deno.symlinkSync("free/real-lock", `${work}/murmur.lock`);
  Deno.symlinkSync("store", `${work}/store-link`);
  return {
    dir,
    trusted: [
      { path: `${work}/murmur.yaml` },
      { path: `${work}/murmur.lock` },
      { path: `${work}/.env` },
      { path: `${work}/roster.yaml` },
      { path: `${work}/.murmur`, tree: true },
      { path: `${work}/prompts/deep/system.md` },
      { path: `${work}/skills/s`, tree: true },
      { path: `${work}/later/new/prompt.md` },
      { path: `${work}/store-link/lock-here` },
      { path: `${dir}/elsewhere/murmur.yaml` },
    ],
  };
}

function refuses(act: () => unknown, what: string): void {
  assert.throws(act, (error) => {
    assert.ok(error instanceof RootedError, what);
    assert.equal(error.kind, "not-permitted", `${what}: ${error.message}`);
    return true;
  }, what);
}

for (const resolver of [new KernelResolver(libc()), new WalkResolver(libc())]) {
  Deno.test(`no trusted file is changed under any name (${resolver.constructor.name})`, () => {
    const { dir, trusted } = project();
    try {
      using root = RootedDir.open(`${dir}/work`, { resolver, trusted: new TrustedFiles(trusted) });
      const files = [
        "murmur.yaml",
        "./murmur.yaml",
        "free/../murmur.yaml",
        ".//murmur.yaml",
        "MURMUR.YAML",
        "Murmur.Yaml",
        "by-link",
        "by-two-links",
        "free/hard",
        "murmur.lock",
        "free/real-lock",
        ".env",
        ".ENV",
        ".murmur/config.yaml",
        ".murmur/cache/x",
        ".murmur/../.murmur/cache/x",
        "dir-link/config.yaml",
        "prompts/deep/system.md",
        "prompts/deep/SYSTEM.md",
        "free/prompt-link",
        "skills/s/SKILL.md",
        "skills/s/docs/more.md",
        "free/hard-in-tree",
        "store-link/lock-here",
        "store/lock-here",
      ];
      for (const path of files) {
        refuses(() => root.openFile(path, { write: true }), `write ${path}`);
        refuses(() => root.openFile(path, { append: true }), `append ${path}`);
        refuses(() => root.openFile(path, { read: true, write: true }), `read and write ${path}`);
        refuses(() => root.openFile(path, { write: true, create: true, truncate: true }), `empty ${path}`);
        refuses(() => root.openEntry(path, { write: true, create: true }), `open entry ${path}`);
        if (!/link/.test(path)) {
          refuses(() => root.unlink(path), `unlink ${path}`);
          if (root.exists(path)) refuses(() => root.removeAll(path), `remove all ${path}`);
          refuses(() => root.rename(path, root, "free/moved"), `move ${path}`);
          refuses(() => root.rename("free/file", root, path), `replace ${path}`);
          refuses(() => root.link(path, root, "free/second"), `link ${path}`);
        }
        refuses(() => root.setTimes(path, { mtime: 1n }), `touch ${path}`);
      }
      // Names that are not there yet, and what would bring them about.
      for (
        const path of [
          "roster.yaml",
          "Roster.yaml",
          "later",
          "LATER",
          ".murmur/new",
          ".murmur/cache/new",
          "dir-link/new",
          "skills/s/new",
        ]
      ) {
        refuses(() => root.openFile(path, { write: true, create: true }), `create ${path}`);
        refuses(() => root.openFile(path, { create: true }), `create for reading ${path}`);
        refuses(() => root.openFile(path, { write: true, createNew: true }), `create new ${path}`);
        refuses(() => root.mkdir(path), `mkdir ${path}`);
        refuses(() => root.mkdir(`${path}/`), `mkdir ${path}/`);
        refuses(() => root.openDir(path, { create: true }), `make ${path}`);
        refuses(() => root.symlink("free/file", path), `symlink ${path}`);
        refuses(() => root.link("free/file", root, path), `link to ${path}`);
        refuses(() => root.rename("free/file", root, path), `rename to ${path}`);
        refuses(() => root.rename("free", root, path), `rename a directory to ${path}`);
      }
      refuses(() => root.openDir("later/new", { create: true }), "make the directories of an absent prompt");
      // Directories above trusted files, and the links on the way to them.
      for (const path of [".murmur", ".murmur/cache", "prompts", "prompts/deep", "skills", "skills/s", "PROMPTS"]) {
        refuses(() => root.rename(path, root, "free/gone"), `move ${path}`);
        refuses(() => root.rename(`${path}/`, root, "free/gone"), `move ${path}/`);
      }
      for (const path of [".murmur", "prompts", "prompts/deep", "skills/s", "store"]) {
        refuses(() => root.rmdir(path), `rmdir ${path}`);
        refuses(() => root.removeAll(path), `remove all of ${path}`);
      }
      refuses(() => root.unlink("store-link"), "remove a link on the way");
      refuses(() => root.rename("free/file", root, "store-link"), "replace a link on the way");
      // From a handle below, the same holds.
      using deep = root.openDir("prompts/deep");
      refuses(() => deep.openFile("system.md", { write: true }), "write from the directory itself");
      refuses(() => deep.rename("system.md", deep, "x"), "move from the directory itself");
      using inTree = root.openDir(".murmur/cache");
      refuses(() => inTree.openFile("new", { write: true, create: true }), "create below a trusted directory");
      using free = root.openDir("free");
      refuses(() => free.rename("file", deep, "system.md"), "replace from a handle");

      // Reading is free, and so is everything else.
      assert.equal(new TextDecoder().decode(root.openFile("by-link").readAll(100)), "trusted");
      assert.equal(root.readDir(".murmur").length, 2);
      root.openFile("prompts/deep/other.md", { write: true, create: true }).close();
      root.openFile("store/other", { write: true, create: true }).close();
      root.openFile("free/new", { write: true, createNew: true }).close();
      root.openFile("free/file", { write: true, truncate: true }).close();
      root.rename("free/new", deep, "new");
      root.mkdir("free/dir");
      assert.throws(() => root.mkdir("prompts"), { kind: "exist" });
      root.openDir("prompts/deep", { create: true }).close();
      root.unlink("by-link");
      root.unlink("free/prompt-link");
      root.removeAll("free/dir");

      // Nothing has changed meanwhile.
      using check = RootedDir.open(`${dir}/work`);
      for (const path of files) {
        if (/by-|MURMUR|Yaml|ENV|SYSTEM|prompt-link/.test(path)) continue;
        assert.equal(new TextDecoder().decode(check.openFile(path).readAll(100)), "trusted", path);
      }

      // A file the runtime rewrote under a trusted name is trusted too.
      Deno.writeTextFileSync(`${dir}/work/free/next`, "next");
      Deno.renameSync(`${dir}/work/free/next`, `${dir}/work/.env`);
      Deno.symlinkSync(".env", `${dir}/work/env-link`);
      refuses(() => root.openFile("env-link", { write: true }), "write the rewritten file by a link");

      // Once the root is closed, handles from it change nothing any more.
      root.close();
      refuses(() => free.openFile("late", { write: true, create: true }), "write after the guard ended");
    } finally {
      Deno.removeSync(dir, { recursive: true });
    }
  });
}

Deno.test("trusted files outside the root guard nothing in it", () => {
  const dir = Deno.makeTempDirSync();
  try {
    Deno.mkdirSync(`${dir}/home/.murmur/state/store`, { recursive: true });
    // The launcher's directory is the home: the store itself lies in a trusted tree, but the tree not in the store.
    const trusted = new TrustedFiles([{ path: `${dir}/home/.murmur`, tree: true }, {
      path: `${dir}/home/murmur.yaml`,
    }]);
    using root = RootedDir.open(`${dir}/home/.murmur/state/store`, { trusted });
    root.openFile("murmur.yaml", { write: true, create: true }).close();
    root.mkdir("x");
    root.rename("x", root, "y");
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});

Deno.test("a directory that was moved out of the root is written no more", () => {
  const dir = Deno.makeTempDirSync();
  try {
    Deno.mkdirSync(`${dir}/work/sub`, { recursive: true });
    Deno.mkdirSync(`${dir}/work/.murmur`);
    const trusted = new TrustedFiles([{ path: `${dir}/work/.murmur`, tree: true }]);
    using root = RootedDir.open(`${dir}/work`, { trusted });
    using sub = root.openDir("sub");
    sub.openFile("before", { write: true, create: true }).close();
    Deno.renameSync(`${dir}/work/sub`, `${dir}/sub`);
    refuses(() => sub.openFile("after", { write: true, create: true }), "write outside the root");
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});

Deno.test("of a hidden tree nothing is read, by no way", () => {
  for (const resolver of [new KernelResolver(libc()), new WalkResolver(libc())]) {
    const dir = Deno.makeTempDirSync();
    try {
      Deno.mkdirSync(`${dir}/work/me/.murmur/records/a`, { recursive: true });
      Deno.writeTextFileSync(`${dir}/work/me/.murmur/config.yaml`, "key");
      Deno.writeTextFileSync(`${dir}/work/me/other`, "free");
      Deno.symlinkSync("me/.murmur/config.yaml", `${dir}/work/to-file`);
      Deno.symlinkSync("me/.murmur", `${dir}/work/to-tree`);
      const trusted = new TrustedFiles([{ path: `${dir}/work/me/.murmur`, tree: true, hidden: true }]);
      using root = RootedDir.open(`${dir}/work`, { resolver, trusted });
      using me = root.openDir("me");
      for (
        const [from, path] of [
          [root, "me/.murmur/config.yaml"],
          [root, "me/.murmur/records/../config.yaml"],
          [root, "to-file"],
          [root, "to-tree/config.yaml"],
          [me, ".murmur/config.yaml"],
          [me, ".murmur/records/a/../../config.yaml"],
        ] as const
      ) {
        refuses(() => from.openFile(path), `read ${path}`);
        refuses(() => from.openEntry(path), `open ${path}`);
        refuses(() => from.openFile(path, { write: true }), `write ${path}`);
      }
      for (
        const path of ["me/.murmur", "me/.murmur/", "me/.murmur/.", "me/.murmur/records", "to-tree", "to-tree/records"]
      ) {
        refuses(() => root.openDir(path), `hold ${path}`);
        refuses(() => root.openEntry(path), `open ${path}`);
        refuses(() => root.readDir(path), `list ${path}`);
      }
      refuses(() => root.rename("me/.murmur/config.yaml", root, "out"), "rename");
      refuses(() => root.rename("me", root, "you"), "rename what holds it");
      refuses(() => root.link("me/.murmur/config.yaml", root, "out"), "link");
      using other = root.openFile("me/other");
      assert.equal(new TextDecoder().decode(other.readAll(10)), "free");
      assert.deepEqual(me.readDir().map(({ name }) => name).sort(), [".murmur", "other"]);
    } finally {
      Deno.removeSync(dir, { recursive: true });
    }
  }
});
