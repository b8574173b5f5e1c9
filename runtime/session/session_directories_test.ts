import assert from "node:assert/strict";
import { murmurHome } from "../../base/murmur_home.ts";
import { TrustedFiles } from "../../base/trusted_files.ts";
import { withTempDir } from "../../tests/support/cli_context.ts";
import { createSessionDirectories, removeDeadScratch, sessionPaths } from "./session_directories.ts";

const id = (digit: string) => `ses_${digit.repeat(32)}`;

function names(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
}

Deno.test("a session's scratch directory is there while it runs, and only a dead one is removed by another launch", async () => {
  await withTempDir(async (root) => {
    const home = murmurHome({ get: (name) => name === "HOME" ? root : undefined });
    Deno.mkdirSync(`${root}/work`);
    const make = (session: string) =>
      createSessionDirectories(
        home,
        sessionPaths(home, { id: session, workdirRoot: `${root}/work`, workdir: `${root}/work` }),
        new TrustedFiles([]),
      );
    const first = await make(id("1"));
    // What a killed process leaves: its lock is nobody's any more.
    Deno.mkdirSync(`${home.sessions}/${id("2")}/runtime`, { recursive: true });
    Deno.writeTextFileSync(`${home.sessions}/${id("2")}/.lock`, "");
    // What an interrupted removal leaves, and what is none of ours.
    Deno.mkdirSync(`${home.sessions}/${id("3")}`);
    Deno.mkdirSync(`${home.sessions}/${id("4")}/kept`, { recursive: true });
    Deno.mkdirSync(`${home.sessions}/other`);
    Deno.symlinkSync(`${root}/work`, `${home.sessions}/${id("5")}`);
    const second = await make(id("6"));
    assert.deepEqual(names(home.sessions), ["other", id("1"), id("4"), id("5"), id("6")]);
    assert.deepEqual(names(`${home.sessions}/${id("1")}`), [".lock", "ctl", "runtime"]);
    first.remove();
    second.remove();
    assert.deepEqual(names(home.sessions), ["other", id("4"), id("5")]);
    assert.deepEqual(names(`${home.records}${root}/work`), [id("1"), id("6")]);
  });
});

Deno.test("launches at the same time leave each other's scratch directories alone", async () => {
  await withTempDir(async (root) => {
    const home = murmurHome({ get: (name) => name === "HOME" ? root : undefined });
    Deno.mkdirSync(`${root}/work`);
    const made = await Promise.all(
      "0123456789abcdef".split("").map((digit) =>
        createSessionDirectories(
          home,
          sessionPaths(home, { id: id(digit), workdirRoot: `${root}/work`, workdir: `${root}/work` }),
          new TrustedFiles([]),
        )
      ),
    );
    await removeDeadScratch(home.sessions);
    assert.equal(names(home.sessions).length, 16);
    for (const directories of made) directories.remove();
    assert.deepEqual(names(home.sessions), []);
  });
});
