import assert from "node:assert/strict";
import { profileText } from "../sandbox/apparmor_profile.ts";
import { withTempDir } from "../tests/support/cli_context.ts";
import { AS_NOBODY, runMur } from "../tests/support/mur_process.ts";
import { placeSetup, removeSetup, type SetupPlaces } from "./setup.ts";

const BYTES = new Uint8Array([1, 2, 3]);

function placesIn(root: string, loads: string[], more: Partial<SetupPlaces> = {}): SetupPlaces {
  return {
    helper: `${root}/libexec/murmur/mur-confine`,
    profile: `${root}/mur-sealed`,
    owner: Deno.uid()!,
    top: root,
    appArmor: true,
    load: (profile, how) => Promise.resolve(void loads.push(`${how} ${profile}`)),
    ...more,
  };
}

Deno.test("helper and profile are put in place, again without a change, and removed", async () => {
  await withTempDir(async (root) => {
    const loads: string[] = [];
    const places = placesIn(root, loads);
    assert.deepEqual(await placeSetup(places, BYTES), [
      `${places.helper} is written`,
      `${places.profile} is written`,
      `${places.profile} is loaded`,
    ]);
    assert.deepEqual(await Deno.readFile(places.helper), BYTES);
    const modeOf = (path: string) => Deno.statSync(path).mode! & 0o7777;
    assert.deepEqual([modeOf(places.helper), modeOf(`${root}/libexec/murmur`), modeOf(places.profile)], [
      0o755,
      0o755,
      0o644,
    ]);
    const text = await Deno.readTextFile(places.profile);
    assert.equal(text, profileText(places.helper));
    assert.ok(text.includes(`profile mur-sealed ${places.helper} flags=(unconfined) {\n  userns,\n`));
    const inode = Deno.statSync(places.helper).ino;
    assert.match((await placeSetup(places, BYTES)).join("\n"), /already\n.*already\n.*loaded$/);
    assert.equal(Deno.statSync(places.helper).ino, inode);

    // Another version, or one that somebody changed, is replaced.
    await Deno.chmod(places.helper, 0o777);
    assert.equal((await placeSetup(places, BYTES))[0], `${places.helper} is written`);
    assert.equal((await placeSetup(places, new Uint8Array([4])))[0], `${places.helper} is written`);

    assert.deepEqual(await removeSetup(places), [`${places.profile} is removed`, `${places.helper} is removed`]);
    assert.deepEqual([...Deno.readDirSync(root)].map(({ name }) => name), ["libexec"]);
    assert.deepEqual([...Deno.readDirSync(`${root}/libexec`)], []);
    assert.deepEqual(await removeSetup(places), ["nothing was set up"]);
    assert.deepEqual(loads.at(-1), `remove ${places.profile}`);
  });
});

Deno.test("without AppArmor there is no profile", async () => {
  await withTempDir(async (root) => {
    const loads: string[] = [];
    const places = placesIn(root, loads, { appArmor: false });
    assert.match((await placeSetup(places, BYTES)).at(-1)!, /no AppArmor/);
    assert.deepEqual(loads, []);
    await assert.rejects(Deno.stat(places.profile), Deno.errors.NotFound);
  });
});

Deno.test("a directory above the helper that others can write is refused, and nothing is put into it", async () => {
  await withTempDir(async (root) => {
    for (const mode of [0o775, 0o757, 0o1777]) {
      const places = placesIn(root, []);
      await Deno.mkdir(`${root}/libexec/murmur`, { recursive: true });
      await Deno.chmod(`${root}/libexec`, mode);
      await assert.rejects(placeSetup(places, BYTES), { code: "E-IO-003", message: /libexec, above the helper/ });
      await Deno.chmod(`${root}/libexec`, 0o755);
      await Deno.chmod(`${root}/libexec/murmur`, mode);
      await assert.rejects(placeSetup(places, BYTES), { code: "E-IO-003", message: /murmur, above the helper/ });
      assert.deepEqual([...Deno.readDirSync(`${root}/libexec/murmur`)], []);
      await Deno.remove(`${root}/libexec`, { recursive: true });
    }
    // A link would lead elsewhere, and one of another owner is another's.
    await Deno.mkdir(`${root}/other`);
    await Deno.symlink(`${root}/other`, `${root}/libexec`);
    await assert.rejects(placeSetup(placesIn(root, []), BYTES), { code: "E-IO-003" });
    await assert.rejects(placeSetup(placesIn(root, [], { owner: 4_000_000 }), BYTES), { code: "E-IO-003" });
  });
});

Deno.test("a profile that can't be loaded fails the command, with the helper's own words", async () => {
  await withTempDir(async (root) => {
    const places = placesIn(root, [], { load: () => Promise.reject(new Error("syntax error")) });
    await assert.rejects(placeSetup(places, BYTES), /syntax error/);
  });
});

Deno.test("only root sets a host up", async () => {
  await withTempDir(async (home) => {
    for (const args of [["setup"], ["setup", "--remove"]]) {
      const finished = await runMur(args, { cwd: home, home, under: AS_NOBODY });
      assert.equal(finished.status, 1);
      assert.equal(
        finished.stderr,
        `error[E-IO-002]: mur setup writes files that only root may write\n  hint: run: sudo mur ${args.join(" ")}\n`,
      );
    }
  });
});
