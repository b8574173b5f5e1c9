import assert from "node:assert/strict";
import { newId } from "../../base/ids.ts";
import { RootedDir } from "../../base/rooted_dir.ts";
import { DEFAULT_TIME_BOUNDS } from "../../base/time_bounds.ts";
import { openLocalDoor } from "../../tests/support/local_door.ts";
import { type DoorAnswer, scriptedDoor } from "../../tests/support/scripted_door.ts";
import { reportCompletion } from "./completion_report.ts";
import type { Completion, CompletionRecord } from "./completion_record.ts";
import type { SpawnerHandle } from "./spawner_handle.ts";

const DELEGATION = newId("dlg");
const COMPLETION: Completion = {
  delegation_id: DELEGATION,
  capsule_name: "worker",
  capsule_version: "1.0.0",
  session_id: "ses_child",
  status: "ok",
  workdir: "/w",
  duration_ms: 7,
};

interface Reported {
  readonly record: CompletionRecord;
  readonly lines: readonly string[];
}

/** Reports to a door; `look` sees the record as it is meanwhile. */
async function report(
  handle: Partial<SpawnerHandle>,
  look: (read: () => CompletionRecord) => void = () => {},
): Promise<Reported> {
  const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "mur-test-" }));
  using records = RootedDir.open(root, { symlinks: "refuse" });
  const read = () => JSON.parse(Deno.readTextFileSync(`${root}/completion.json`)) as CompletionRecord;
  const lines: string[] = [];
  look(read);
  try {
    await reportCompletion({
      handle: { url: null, sessionId: "ses_parent", contextId: "ctx_1", delegationId: DELEGATION, ...handle },
      completion: COMPLETION,
      records,
      bounds: { ...DEFAULT_TIME_BOUNDS, completionPost: 200 },
      report: (line) => lines.push(line),
    });
    return { record: read(), lines };
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("a completion is recorded, posted to the parent's door and recorded as delivered", async () => {
  let read: () => CompletionRecord = () => assert.fail();
  const seen: CompletionRecord[] = [];
  await using door = openLocalDoor({
    acceptance: "none",
    receiveCompletion: (id) => {
      assert.equal(id, DELEGATION);
      // Whoever is told can read it.
      seen.push(read());
      return "received";
    },
  });
  const { record, lines } = await report(
    { url: `http://localhost:${door.port}`, sessionId: door.sessionId },
    (reader) => read = reader,
  );
  assert.deepEqual(seen, [{ ...COMPLETION, reported_by: "child", delivered: false }]);
  assert.deepEqual(record, { ...COMPLETION, reported_by: "child", delivered: true });
  assert.deepEqual(lines, []);
});

Deno.test("a door that refuses is told of in the record and in one line, in its own words", async () => {
  await using door = openLocalDoor({ receiveCompletion: () => "being-ended" });
  const url = `http://localhost:${door.port}`;
  const ending = await report({ url, sessionId: door.sessionId });
  const why = `delegation ${DELEGATION} is being ended by this session; its launcher records the outcome`;
  assert.deepEqual([ending.record.delivered, ending.record.delivery_error], [false, why]);
  assert.deepEqual(ending.lines, [`the completion of delegation ${DELEGATION} was not delivered: ${why}`]);
  const other = await report({ url });
  assert.equal(
    other.record.delivery_error,
    "completion is addressed to session ses_parent, which is not the session running here",
  );
});

Deno.test("whoever listens there, silent, gone or somebody else, the record says that nothing was delivered", async () => {
  const gone = scriptedDoor();
  const answers: readonly (readonly [() => DoorAnswer | Promise<DoorAnswer>, RegExp])[] = [
    [() => ({ result: {} }), /something else than a receipt/],
    [() => ({ result: { delegation_id: "dlg_other", received: true } }), /something else than a receipt/],
    [() => ({ result: { delegation_id: DELEGATION, received: "true" } }), /something else than a receipt/],
    [() => ({ response: new Response("<html>") }), /no JSON-RPC/],
    [() => ({ response: Response.json({ error: "busy" }, { status: 503 }) }), /503 busy/],
    [() => new Promise((resolve) => setTimeout(() => resolve({ result: {} }), 1_000)), /did not answer in time/],
  ];
  for (const [answer, why] of answers) {
    await using door = scriptedDoor({ answer });
    const { record, lines } = await report({ url: `http://localhost:${door.port}` });
    assert.equal(record.delivered, false);
    assert.match(record.delivery_error!, why);
    assert.equal(lines.length, 1);
    const [call] = door.calls;
    assert.deepEqual(
      ["a2a-version", "x-murmur-task-origin", "x-murmur-delegation-id", "x-murmur-completion-session"].map((name) =>
        call!.headers.get(name)
      ),
      ["1.0", "completion", DELEGATION, "ses_parent"],
    );
    assert.match(JSON.stringify(call!.params), /"text":"delegation_id: dlg_[^"]*status: ok/);
  }
  await gone[Symbol.asyncDispose]();
  const { record } = await report({ url: `http://localhost:${gone.port}` });
  assert.match(record.delivery_error!, /refused the connection/);
});

Deno.test("the child of a plan's step has nobody to tell, and says so at once", async () => {
  const { record, lines } = await report({ url: null });
  assert.deepEqual(record, {
    ...COMPLETION,
    reported_by: "child",
    delivered: false,
    delivery_error: "no parent door",
  });
  assert.deepEqual(lines, []);
});
