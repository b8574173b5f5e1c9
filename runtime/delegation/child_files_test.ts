import assert from "node:assert/strict";
import { RootedDir } from "../../base/rooted_dir.ts";
import { readAnswer, readCompletion, resultPath, writeCompletion } from "./child_files.ts";
import type { CompletionRecord } from "./completion_record.ts";
import { outcomeBlock } from "./outcome_block.ts";

const RECORD: CompletionRecord = {
  delegation_id: "dlg_1",
  capsule_name: "worker",
  capsule_version: "1.0.0",
  session_id: "ses_1",
  status: "ok",
  workdir: "/w",
  duration_ms: 7,
  reported_by: "launcher",
  delivered: false,
};
const EXPECTED = { delegationId: "dlg_1", sessionId: "ses_1" };

/** A child's records directory and a parent's runtime directory. */
async function directories() {
  const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "mur-test-" }));
  for (const name of ["records/out", "runtime"]) Deno.mkdirSync(`${root}/${name}`, { recursive: true });
  const runtime = RootedDir.open(`${root}/runtime`, { symlinks: "refuse" });
  return {
    root,
    records: `${root}/records`,
    runtime,
    result: (content: string | Uint8Array) =>
      Deno.writeFileSync(
        `${root}/records/out/result.txt`,
        typeof content === "string" ? new TextEncoder().encode(content) : content,
      ),
    async [Symbol.asyncDispose]() {
      runtime.close();
      await Deno.remove(root, { recursive: true });
    },
  };
}

Deno.test("a completion is read back as it was written; a missing one and a missing directory are none", async () => {
  await using dirs = await directories();
  assert.deepEqual(readCompletion(dirs.records, EXPECTED), { kind: "missing" });
  assert.deepEqual(readCompletion(`${dirs.root}/gone`, EXPECTED), { kind: "missing" });
  writeCompletion(dirs.records, RECORD);
  assert.deepEqual(readCompletion(dirs.records, EXPECTED), { kind: "record", record: RECORD });
  assert.equal(Deno.statSync(`${dirs.records}/completion.json`).mode! & 0o777, 0o600);
  Deno.writeTextFileSync(`${dirs.records}/completion.json`, "{");
  assert.equal(readCompletion(dirs.records, EXPECTED).kind, "unreadable");
});

Deno.test("links and pipes in the places of a child's files are never followed or waited for", async () => {
  await using dirs = await directories();
  Deno.writeTextFileSync(`${dirs.root}/secret`, JSON.stringify(RECORD));
  Deno.symlinkSync("../secret", `${dirs.records}/completion.json`);
  Deno.symlinkSync("../../secret", `${dirs.records}/out/result.txt`);
  assert.equal(readCompletion(dirs.records, EXPECTED).kind, "unreadable");
  assert.equal(readAnswer(dirs.records, dirs.runtime, "dlg_1").kind, "unreadable");
  assert.equal(resultPath(dirs.records), null);
  for (const name of ["completion.json", "out/result.txt"]) {
    Deno.removeSync(`${dirs.records}/${name}`);
    assert.ok((await new Deno.Command("mkfifo", { args: [`${dirs.records}/${name}`] }).output()).success);
  }
  assert.equal(readCompletion(dirs.records, EXPECTED).kind, "unreadable");
  assert.equal(readAnswer(dirs.records, dirs.runtime, "dlg_1").kind, "unreadable");
  assert.equal(resultPath(dirs.records), null);
});

Deno.test("an answer of up to 64 KiB is whole; a byte more is cut and kept whole for the tools", async () => {
  await using dirs = await directories();
  const read = () => readAnswer(dirs.records, dirs.runtime, "dlg_1");
  assert.deepEqual(read(), { kind: "missing" });
  dirs.result("");
  assert.deepEqual(read(), { kind: "empty" });
  dirs.result("x".repeat(65_536));
  assert.deepEqual(read(), { kind: "whole", text: "x".repeat(65_536) });
  assert.equal(resultPath(dirs.records), `${dirs.records}/out/result.txt`);
  assert.ok(!dirs.runtime.exists("delegations"));
  dirs.result("x".repeat(65_537));
  assert.deepEqual(read(), {
    kind: "cut",
    text: "x".repeat(65_536),
    keptBytes: 65_536,
    totalBytes: 65_537,
    notKept: null,
  });
  const text = `${"x".repeat(65_535)}€ and more`;
  dirs.result(text);
  const cut = read();
  assert.ok(cut.kind === "cut" && cut.keptBytes === 65_535 && cut.text === "x".repeat(65_535));
  assert.equal(Deno.readTextFileSync(`${dirs.root}/runtime/delegations/dlg_1.txt`), text);
});

Deno.test("a whole answer that cannot be kept is said in its block", async () => {
  await using dirs = await directories();
  dirs.result("x".repeat(70_000));
  Deno.writeTextFileSync(`${dirs.root}/runtime/delegations`, "in the way");
  const answer = readAnswer(dirs.records, dirs.runtime, "dlg_1");
  const text = outcomeBlock({
    delegationId: "dlg_1",
    capsule: "worker",
    version: "1",
    sessionId: "ses_1",
    status: "ok",
    durationMs: 1,
    workdir: "/w",
    detail: null,
    answer,
  });
  assert.match(
    text,
    /\[cut at 65536 of 70000 bytes; the whole answer could not be kept in the runtime directory: .+\]/,
  );
});

Deno.test("of an answer too large to keep only its beginning is read", async () => {
  await using dirs = await directories();
  dirs.result("head");
  Deno.truncateSync(`${dirs.records}/out/result.txt`, 64 * 1024 * 1024 + 1);
  const answer = readAnswer(dirs.records, dirs.runtime, "dlg_1");
  assert.ok(answer.kind === "cut" && answer.text.startsWith("head") && answer.totalBytes === 67_108_865);
  assert.match(answer.notKept!, /larger than 67108864 bytes/);
  assert.ok(!dirs.runtime.exists("delegations"));
});
