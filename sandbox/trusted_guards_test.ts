import assert from "node:assert/strict";
import fc from "fast-check";
import { isAtOrBelow, parentDirectory } from "../base/paths.ts";
import { withTempDir } from "../tests/support/cli_context.ts";
import {
  comparePaths,
  planTrustedGuards,
  type StandingKind,
  standingOf,
  type TrustedStanding,
} from "./trusted_guards.ts";
import { removeLeftPlaceholders, TrustedPlaceholders } from "./trusted_placeholders.ts";

async function inProject(work: (root: string) => void | Promise<void>): Promise<void> {
  await withTempDir(async (made) => {
    const root = Deno.realPathSync(made);
    Deno.mkdirSync(`${root}/work/deep`, { recursive: true });
    Deno.mkdirSync(`${root}/outside`);
    for (const path of ["work/murmur.yaml", "work/deep/prompt.md", "outside/murmur.yaml"]) {
      Deno.writeTextFileSync(`${root}/${path}`, "x");
    }
    await work(root);
  });
}

const seen = (path: string, grants: readonly string[], tree = false) => {
  const standing = standingOf({ path, tree }, grants);
  return standing === null ? null : [standing.kind, standing.reached, standing.whole];
};

Deno.test("a trusted file is found in a grant under every way to name it, and passed over elsewhere", async () => {
  await inProject((root) => {
    const grants = [`${root}/work`];
    Deno.symlinkSync("work", `${root}/link`);
    assert.deepEqual(seen(`${root}/work/murmur.yaml`, grants), ["file", `${root}/work/murmur.yaml`, true]);
    assert.deepEqual(seen(`${root}/link/murmur.yaml`, grants), ["file", `${root}/work/murmur.yaml`, true]);
    assert.deepEqual(seen(`${root}/work/deep/prompt.md`, grants), ["file", `${root}/work/deep/prompt.md`, true]);
    assert.deepEqual(seen(`${root}/work/none/prompt.md`, grants), ["absent", `${root}/work/none`, false]);
    assert.equal(seen(`${root}/outside/murmur.yaml`, grants), null);
    assert.equal(seen(`${root}/outside/absent`, grants), null);
    assert.equal(seen(`${root}/work2/murmur.yaml`, grants), null);
  });
});

Deno.test("links inside a grant end the way: whoever may write there may replace them", async () => {
  await inProject((root) => {
    const grants = [`${root}/work`];
    Deno.symlinkSync(`${root}/outside`, `${root}/work/out`);
    Deno.symlinkSync("murmur.yaml", `${root}/work/alias.yaml`);
    assert.deepEqual(seen(`${root}/work/out/murmur.yaml`, grants), ["symlink", `${root}/work/out`, false]);
    assert.deepEqual(seen(`${root}/work/alias.yaml`, grants), ["symlink", `${root}/work/alias.yaml`, true]);
    Deno.symlinkSync("a", `${root}/b`);
    Deno.symlinkSync("b", `${root}/a`);
    assert.equal(seen(`${root}/a/murmur.yaml`, grants), null, "a loop leads nowhere");
  });
});

Deno.test("a file of two names, and a grant inside a trusted tree, cannot be held", async () => {
  await inProject((root) => {
    Deno.linkSync(`${root}/work/murmur.yaml`, `${root}/work/deep/other`);
    const linked = standingOf({ path: `${root}/work/murmur.yaml` }, [`${root}/work`])!;
    assert.equal(linked.kind, "linked-file");
    const inside = standingOf({ path: `${root}/work`, tree: true }, [`${root}/work/deep`])!;
    const guards = planTrustedGuards([linked, inside]);
    assert.deepEqual(guards.unguardable, [`${root}/work/murmur.yaml`, `${root}/work`]);
    assert.deepEqual(guards.protect, []);
    assert.equal(standingOf({ path: `${root}/work` }, [`${root}/work/deep`]), null, "only of a tree all is trusted");
  });
});

const standing = (reached: string, kind: StandingKind, more: Partial<TrustedStanding> = {}): TrustedStanding => ({
  path: reached,
  tree: false,
  grant: "/w",
  reached,
  kind,
  whole: true,
  ...more,
});

Deno.test("files are read-only, the directories above them cannot be renamed, absent names are taken", () => {
  const guards = planTrustedGuards([
    standing("/w/a/b/prompt.md", "file"),
    standing("/w/murmur.yaml", "file"),
    standing("/w/.env", "absent"),
    standing("/w/.murmur", "absent", { tree: true }),
    standing("/w/none", "absent", { path: "/w/none/prompt.md", whole: false }),
  ]);
  assert.deepEqual(guards.protect.map(({ how, path }) => [how, path]), [
    ["ro", "/w/.env"],
    ["ro", "/w/.murmur"],
    ["dir", "/w/a"],
    ["dir", "/w/a/b"],
    ["ro", "/w/a/b/prompt.md"],
    ["ro", "/w/murmur.yaml"],
    ["ro", "/w/none"],
  ]);
  assert.deepEqual(guards.placeholders, [
    { grant: "/w", path: "/w/.env", directory: false },
    { grant: "/w", path: "/w/.murmur", directory: true },
    { grant: "/w", path: "/w/none", directory: true },
  ]);
  assert.deepEqual(guards.unguardable, []);
});

Deno.test("every trusted path is held or named as one that is not; parents come first", () => {
  const name = fc.constantFrom("a", "b", "murmur.yaml", ".murmur");
  const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((parts) => `/w/${parts.join("/")}`);
  const kind = fc.constantFrom<StandingKind>("directory", "file", "linked-file", "symlink", "absent");
  const all = fc.array(fc.record({ path, kind, tree: fc.boolean(), whole: fc.boolean() }), { maxLength: 8 });
  fc.assert(fc.property(all, (made) => {
    const standings = made.map(({ path, kind, tree, whole }) => standing(path, kind, { tree, whole }));
    const { protect, unguardable } = planTrustedGuards(standings);
    for (const { path, reached, kind } of standings) {
      const held = protect.some((each) => each.how === "ro" && isAtOrBelow(reached, each.path));
      assert.ok(held || unguardable.includes(path), `${kind} ${path}`);
    }
    for (const [index, { path }] of protect.entries()) {
      assert.ok(!protect.slice(0, index).some((earlier) => isAtOrBelow(earlier.path, path)), "a parent comes first");
      const parent = parentDirectory(path);
      assert.ok(parent === "/w" || protect.some((each) => isAtOrBelow(parent, each.path) && each.path !== "/w"));
    }
  }));
});

Deno.test("paths are ordered by whole components", () => {
  const paths = ["/a/b", "/a", "/a-b", "/a/b/c", "/"];
  assert.deepEqual(paths.sort(comparePaths), ["/", "/a", "/a/b", "/a/b/c", "/a-b"]);
});

const kindsIn = (directory: string) =>
  [...Deno.readDirSync(directory)].map(({ name, isDirectory }) => `${name}${isDirectory ? "/" : ""}`).sort();

Deno.test("placeholders stand while the session runs and are gone after it", async () => {
  await inProject((root) => {
    const grant = `${root}/outside`;
    const placeholders = new TrustedPlaceholders([
      { grant, path: `${grant}/.env`, directory: false },
      { grant, path: `${grant}/.murmur`, directory: true },
      { grant, path: `${grant}/murmur.yaml`, directory: false },
    ]);
    placeholders.ensure();
    assert.deepEqual(kindsIn(grant), [".env", ".murmur/", "murmur.yaml"]);
    assert.deepEqual(placeholders.made, [`${grant}/.env`, `${grant}/.murmur`]);
    assert.equal(Deno.statSync(`${grant}/.murmur`).mode! & 0o777, 0o555);
    Deno.removeSync(`${grant}/.env`);
    placeholders.ensure();
    assert.deepEqual(kindsIn(grant), [".env", ".murmur/", "murmur.yaml"]);
    placeholders.remove();
    assert.deepEqual(kindsIn(grant), ["murmur.yaml"]);
  });
});

Deno.test("a placeholder that another session holds, or that was filled, stays, and the last session removes it", async () => {
  await inProject((root) => {
    const grant = `${root}/outside`;
    const wanted = [{ grant, path: `${grant}/.env`, directory: false }];
    const both = [...wanted, { grant, path: `${grant}/.murmur`, directory: true }];
    const [first, second] = [new TrustedPlaceholders(both), new TrustedPlaceholders(both)];
    first.ensure();
    second.ensure();
    first.remove();
    // Were it gone, so were the mount that holds it in the commands of the other.
    assert.deepEqual(kindsIn(grant), [".env", ".murmur/", "murmur.yaml"]);
    second.remove();
    assert.deepEqual(kindsIn(grant), ["murmur.yaml"], "the last one that held them takes them away");

    Deno.mkdirSync(`${grant}/.murmur`);
    const beside = new TrustedPlaceholders(both);
    beside.ensure();
    beside.remove();
    assert.deepEqual(kindsIn(grant), [".murmur/", "murmur.yaml"], "the operator's own empty directory stays");

    Deno.writeTextFileSync(`${grant}/.env`, "");
    const own = new TrustedPlaceholders(wanted);
    own.ensure();
    own.remove();
    assert.ok(kindsIn(grant).includes(".env"), "an empty file of the operator's is no session's to remove");
    Deno.removeSync(`${grant}/.env`);

    const third = new TrustedPlaceholders(wanted);
    third.ensure();
    Deno.writeTextFileSync(`${grant}/.env`, "A=1");
    third.remove();
    assert.equal(Deno.readTextFileSync(`${grant}/.env`), "A=1");
  });
});

Deno.test("what a session that was killed left is removed by its record, unless it is held, filled or another's", async () => {
  await inProject((root) => {
    const grant = `${root}/outside`;
    const record = `${root}/record.json`;
    const wanted = [
      { grant, path: `${grant}/.env`, directory: false },
      { grant, path: `${grant}/.murmur`, directory: true },
      { grant, path: `${grant}/murmur.lock`, directory: false },
      { grant, path: `${grant}/roster.yaml`, directory: false },
      { grant, path: `${grant}/deep`, directory: true },
    ];
    // A process of its own, which ends without a word: so do its locks.
    const module = new URL("./trusted_placeholders.ts", import.meta.url).href;
    const { success, stderr } = new Deno.Command(Deno.execPath(), {
      args: [
        "eval",
        "--quiet",
        `import { TrustedPlaceholders } from "${module}";
        new TrustedPlaceholders(${JSON.stringify(wanted)}, "${record}").ensure();
        Deno.kill(Deno.pid, "SIGKILL");`,
      ],
      cwd: new URL("..", import.meta.url),
    }).outputSync();
    assert.ok(!success);
    assert.equal(new TextDecoder().decode(stderr), "");
    assert.deepEqual(kindsIn(grant), [".env", ".murmur/", "deep/", "murmur.lock", "murmur.yaml", "roster.yaml"]);
    const living = new TrustedPlaceholders(wanted.slice(0, 2));
    living.ensure();
    Deno.writeTextFileSync(`${grant}/murmur.lock`, "A=1");
    Deno.chmodSync(`${grant}/deep`, 0o755);
    removeLeftPlaceholders(record);
    assert.deepEqual(kindsIn(grant), [".env", ".murmur/", "deep/", "murmur.lock", "murmur.yaml"]);
    living.remove();
    assert.deepEqual(kindsIn(grant), ["deep/", "murmur.lock", "murmur.yaml"]);
    for (const text of ["", "{}", '[{"grant":"/","path":"relative","directory":false},3]', "[null]"]) {
      Deno.writeTextFileSync(record, text);
      removeLeftPlaceholders(record);
    }
  });
});

Deno.test("a placeholder is never made through a link", async () => {
  await inProject((root) => {
    Deno.symlinkSync(`${root}/outside`, `${root}/work/sub`);
    const grant = `${root}/work`;
    const placeholders = new TrustedPlaceholders([{ grant, path: `${grant}/sub/.env`, directory: false }]);
    assert.throws(() => placeholders.ensure(), { code: "E-IO-003" });
    assert.deepEqual(kindsIn(`${root}/outside`), ["murmur.yaml"]);
  });
});

Deno.test("a name in another's directory needs no placeholder; in a closed one of this user's the launch is refused", {
  ignore: Deno.uid() === 0,
}, async () => {
  await inProject((root) => {
    const foreign = new TrustedPlaceholders([{ grant: "/", path: "/murmur.yaml", directory: false }]);
    foreign.ensure();
    assert.deepEqual([...foreign.unneeded], ["/murmur.yaml"]);
    foreign.remove();
    Deno.chmodSync(`${root}/outside`, 0o555);
    const own = new TrustedPlaceholders([{ grant: `${root}/outside`, path: `${root}/outside/.env`, directory: false }]);
    assert.throws(() => own.ensure(), { code: "E-IO-003" });
    Deno.chmodSync(`${root}/outside`, 0o755);
  });
});

Deno.test("what another session put in a trusted name's place is planned for as if it were absent", async () => {
  await inProject((root) => {
    const grant = `${root}/outside`;
    const plan = () =>
      planTrustedGuards([
        standingOf({ path: `${grant}/.env` }, [grant])!,
        standingOf({ path: `${grant}/.murmur`, tree: true }, [grant])!,
      ]);
    const absent = plan();
    assert.equal(absent.placeholders.length, 2);
    const other = new TrustedPlaceholders(absent.placeholders);
    other.ensure();
    assert.deepEqual(plan(), absent);
    other.remove();
    // What holds something is the operator's, and so is a directory in a file's place.
    Deno.writeTextFileSync(`${grant}/.env`, "A=1");
    Deno.mkdirSync(`${grant}/.murmur`, { mode: 0o755 });
    assert.deepEqual(plan().placeholders, []);
  });
});

Deno.test("sessions that take and let go of the same names all the time never hold one that is gone", async () => {
  await inProject(async (root) => {
    const grant = `${root}/outside`;
    const wanted = [
      { grant, path: `${grant}/.env`, directory: false },
      { grant, path: `${grant}/.murmur`, directory: true },
    ];
    const module = new URL("./trusted_placeholders.ts", import.meta.url).href;
    const program = `import { TrustedPlaceholders } from "${module}";
      for (const end = Date.now() + 1500; Date.now() < end;) {
        const own = new TrustedPlaceholders(${JSON.stringify(wanted)});
        own.ensure();
        for (const { path } of ${JSON.stringify(wanted)}) Deno.lstatSync(path);
        if (own.made.length !== 2) throw new Error("taken for the operator's");
        own.remove();
      }`;
    const ends = await Promise.all(
      [1, 2, 3].map(() =>
        new Deno.Command(Deno.execPath(), { args: ["eval", "--quiet", program], cwd: new URL("..", import.meta.url) })
          .output()
      ),
    );
    for (const { success, stderr } of ends) assert.ok(success, new TextDecoder().decode(stderr));
    assert.deepEqual(kindsIn(grant), ["murmur.yaml"]);
  });
});
