import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { murmurHomeAt, recordsGroup } from "../../base/murmur_home.ts";
import { findSession, findTrace, resolveAddress, sessionsOf } from "./session_address.ts";

const OLD = "ses_019a00112100744455667788990011aa";
const MIDDLE = "ses_019a00112200744455667788990022aa";
const NEW = "ses_019a00112300744455667788990033bb";
const SESSIONS = [NEW, MIDDLE, OLD].map((id) => ({ id, directory: `/r/${id}` }));

function found(address: string): string | null {
  const result = resolveAddress(address, SESSIONS, "/w");
  return result.kind === "found" ? result.session.id : null;
}

function text(address: string, sessions = SESSIONS): string | null {
  const result = resolveAddress(address, sessions, "/w");
  return result.kind === "found" ? null : result.text;
}

Deno.test("ordinals count from the newest", () => {
  assert.deepEqual(["@1", "@2", "@3", "@03"].map(found), [NEW, MIDDLE, OLD, OLD]);
  assert.equal(text("@4"), "@4 is out of range — workdir has 3 session(s)");
  assert.equal(text("@0"), "ordinal must be @1 or higher");
  for (const bad of ["@", "@x", "@-1", "@1.0", "@1e1", "@ 1"]) {
    assert.equal(text(bad), `invalid ordinal '${bad}' — expected @1, @2, ...`);
  }
});

Deno.test("a full id names itself", () => {
  assert.equal(found(MIDDLE), MIDDLE);
  const absent = "ses_019a0011210074445566778899001199";
  assert.equal(text(absent), `session ${absent} not found in /w`);
});

Deno.test("the end of an id names the one session that has it", () => {
  assert.equal(found("33BB"), NEW);
  assert.equal(found("22aa"), MIDDLE);
  assert.equal(text("3bb"), "no session found matching suffix '3bb' in /w");
  assert.equal(text("ffff"), "no session found matching suffix 'ffff' in /w");
  assert.equal(
    text("4455667788990011aa", [...SESSIONS, { id: `ses_ff9a00112100744455667788990011aa`, directory: "/r/x" }]),
    "ambiguous: '4455667788990011aa' matches 2 sessions — provide more characters\n  " +
      `${OLD}\n  ses_ff9a00112100744455667788990011aa`,
  );
});

Deno.test("no session at all says so, but a bad ordinal is bad anyway", () => {
  assert.equal(text("@1", []), "no sessions found in workdir at /w");
  assert.equal(text(OLD, []), "no sessions found in workdir at /w");
  assert.equal(text("@x", []), "invalid ordinal '@x' — expected @1, @2, ...");
});

Deno.test("sessions are looked for in the group of the work folder, older builds' places when it has no match", async () => {
  const root = await Deno.makeTempDir();
  try {
    const home = murmurHomeAt(`${root}/home`);
    const directory = `${root}/project/workdir`;
    const search = { home, directory };
    assert.deepEqual(await sessionsOf(search), []);
    await assert.rejects(
      findSession("@1", search),
      (error: unknown) =>
        error instanceof MurError && error.code === "E-TRC-002" &&
        error.message === `no sessions found in workdir at ${directory}`,
    );

    // A work folder of this build is no session of an older one.
    await Deno.mkdir(`${directory}/${NEW}`, { recursive: true });
    assert.deepEqual(await sessionsOf(search), []);

    for (const place of [directory, `${directory}/.murmur`]) {
      const id = place === directory ? OLD : MIDDLE;
      await Deno.mkdir(`${place}/${id}`, { recursive: true });
      await Deno.writeTextFile(`${place}/${id}/trace.jsonl`, "");
    }
    assert.equal((await findSession("@1", search)).directory, `${directory}/.murmur/${MIDDLE}`);
    assert.equal((await findSession("0011aa", search)).directory, `${directory}/${OLD}`);

    const group = recordsGroup(home, directory);
    await Deno.mkdir(`${group}/${NEW}`, { recursive: true });
    await Deno.writeTextFile(`${group}/ses_file`, "not a directory");
    assert.deepEqual((await sessionsOf(search)).map(({ id }) => id), [NEW]);
    assert.equal((await findSession("@1", search)).id, NEW);
    // Named outright, an older build's session is still found; counted, it is not.
    assert.equal((await findSession(OLD, search)).id, OLD);
    await assert.rejects(findSession("@2", search), /out of range — workdir has 1 session/);
    await assert.rejects(findSession("abcd", search), /no session found matching suffix 'abcd'/);
    await assert.rejects(
      findSession("abcd", { ...search, code: "E-EVAL-002" }),
      (error: unknown) => error instanceof MurError && error.code === "E-EVAL-002",
    );
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("records that cannot be listed are an error of files", async () => {
  const root = await Deno.makeTempDir();
  try {
    const search = { home: murmurHomeAt(`${root}/home`), directory: `${root}/workdir` };
    const group = recordsGroup(search.home, search.directory);
    await Deno.mkdir(group.slice(0, group.lastIndexOf("/")), { recursive: true });
    await Deno.symlink(group, group);
    await assert.rejects(
      findSession("@1", search),
      (error: unknown) => error instanceof MurError && error.code === "E-IO-003" && error.message.includes(group),
    );
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("a path is taken as it is, relative to the current directory", async () => {
  const search = { home: murmurHomeAt("/nowhere"), directory: "/w" };
  assert.equal(await findTrace("/a/b/trace.jsonl", search, "/cwd"), "/a/b/trace.jsonl");
  assert.equal(await findTrace("other.jsonl", search, "/cwd"), "/cwd/other.jsonl");
  assert.equal(await findTrace(`records/${OLD}/`, search, "/cwd"), `/cwd/records/${OLD}/trace.jsonl`);
});
