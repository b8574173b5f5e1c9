import assert from "node:assert/strict";
import fc from "fast-check";
import {
  ConversationRecord,
  isContextSegment,
  parseRecord,
  readRecord,
  recordPath,
  truncatedRecord,
} from "./conversation_record.ts";
import { assistantMessage, recordJson, toolMessage, userMessage } from "./message.ts";

async function withStore(
  work: (
    open: (more?: { header?: boolean; contextId?: string }) => {
      record: ConversationRecord;
      path: string;
      reports: string[];
    },
    root: string,
  ) => void | Promise<void>,
): Promise<void> {
  const root = await Deno.makeTempDir();
  try {
    await work(({ header = false, contextId = "ctx_1" } = {}) => {
      const location = { conversations: `${root}/conversations`, store: "bot", contextId };
      const reports: string[] = [];
      const record = ConversationRecord.open({
        location,
        headerCapsule: header ? "bot" : null,
        report: (text) => void reports.push(text),
        now: () => 1_756_400_000_000,
      });
      return { record, path: recordPath(location), reports };
    }, root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const A = userMessage("a", { id: "msg_a" });
const B = assistantMessage([{ type: "tool_call", id: "c", name: "t", input: {} }], { id: "msg_b" });
const C = toolMessage({ callId: "c", isError: false, text: "ä😀\n" }, { id: "msg_c", fence: "tool:t" });

Deno.test("nothing is made before the first append; then three private directories and one line per message", () =>
  withStore((open, root) => {
    const { record, path } = open();
    assert.deepEqual([...Deno.readDirSync(root)], []);
    record.append([]);
    assert.deepEqual([...Deno.readDirSync(root)], []);
    record.append([A, B]);
    record.append([C]);
    assert.equal(Deno.readTextFileSync(path), [A, B, C].map((message) => `${recordJson(message)}\n`).join(""));
    for (const directory of ["", "/bot", "/bot/ctx_1"]) {
      assert.equal(Deno.statSync(`${root}/conversations${directory}`).mode! & 0o777, 0o700);
    }
    assert.equal(Deno.statSync(path).mode! & 0o777, 0o600);
    assert.deepEqual(open().record.messages, [A, B, C]);
  }));

Deno.test("a message whose id is recorded is skipped, by this launch and the next", () =>
  withStore((open) => {
    const first = open();
    first.record.append([A, A]);
    first.record.append([A, B]);
    const next = open();
    next.record.append([A, B, C]);
    assert.equal(Deno.readTextFileSync(first.path), [A, B, C].map((message) => `${recordJson(message)}\n`).join(""));
  }));

Deno.test("a torn tail costs only itself", () =>
  withStore((open) => {
    const first = open();
    first.record.append([A, B]);
    const whole = Deno.readFileSync(first.path);
    for (const cut of [1, 5, recordJson(B).length]) {
      Deno.writeFileSync(first.path, whole.subarray(0, whole.length - cut));
      const { record, reports } = open();
      // A last line that lost only its newline is whole.
      assert.deepEqual(record.messages.map(({ id }) => id), cut === 1 ? ["msg_a", "msg_b"] : ["msg_a"]);
      assert.equal(reports.length, cut === 1 ? 0 : 1);
      record.append([C]);
      assert.deepEqual(
        readRecord(first.path).entries.map(({ message }) => message.id),
        cut === 1 ? ["msg_a", "msg_b", "msg_c"] : ["msg_a", "msg_c"],
      );
    }
  }));

Deno.test("what is no message is skipped, and the first of it is reported once with its number", () =>
  withStore((open) => {
    const { path } = open();
    open().record.append([A]);
    Deno.writeTextFileSync(path, `\n[]\n${recordJson(C)}\n{"role":"system","content":[]}\n`, { append: true });
    const { record, reports } = open();
    assert.deepEqual(record.messages, [A, C]);
    assert.equal(reports.length, 1);
    assert.match(reports[0]!, /line 2 is no message/);
  }));

Deno.test("a header is written first; a record without one is adopted; an existing one stays, whoever it names", () =>
  withStore((open) => {
    const { record, path } = open({ header: true });
    record.append([A]);
    const [header] = Deno.readTextFileSync(path).split("\n");
    assert.equal(header, '{"type":"murmur.record","capsule":"bot","created_ms":1756400000000}');
    assert.deepEqual(open({ header: true }).record.messages, [A]);
    open({ header: true }).record.append([B]);
    assert.equal(Deno.readTextFileSync(path).split("\n").filter((line) => line.includes("murmur.record")).length, 1);

    const bare = open({ contextId: "ctx_2" });
    bare.record.append([A]);
    const adopted = open({ contextId: "ctx_2", header: true });
    assert.deepEqual(adopted.record.messages, [A]);
    assert.equal(Deno.readTextFileSync(bare.path), `${header}\n${recordJson(A)}\n`);
    assert.equal(Deno.statSync(bare.path).mode! & 0o777, 0o600);

    const foreign = header!.replace("bot", "other");
    Deno.writeTextFileSync(bare.path, `${foreign}\n${recordJson(A)}\n`);
    open({ contextId: "ctx_2", header: true }).record.append([B]);
    assert.equal(Deno.readTextFileSync(bare.path).split("\n")[0], foreign);
    assert.equal(open({ contextId: "ctx_2" }).reports.length, 0);
  }));

Deno.test("a context id that is no path segment is reported once and recorded nowhere", () =>
  withStore((open, root) => {
    for (const contextId of ["", ".", "..", "../x", "/abs", "a/b", ".hidden", "nul\0", "half \ud800"]) {
      assert.equal(isContextSegment(contextId), false);
      const { record, reports } = open({ contextId });
      record.append([A]);
      record.beginAttempt();
      record.append([A]);
      assert.equal(reports.length, 1);
      assert.deepEqual(record.messages, []);
    }
    assert.deepEqual([...Deno.readDirSync(root)], []);
    for (const contextId of ["ctx_1", "a b", "a..b", "é", "-x", "whole \u{1f600}"]) {
      assert.equal(isContextSegment(contextId), true);
    }
  }));

Deno.test("a failed write is reported once, leaves the attempt unrecorded, and the next attempt closes the gap", () =>
  withStore((open, root) => {
    const { record, path, reports } = open();
    Deno.writeTextFileSync(`${root}/conversations`, "in the way");
    record.append([A]);
    Deno.removeSync(`${root}/conversations`);
    record.append([B]);
    assert.equal(reports.length, 1);
    assert.match(reports[0]!, /not recorded/);
    assert.deepEqual([...Deno.readDirSync(root)], []);
    record.beginAttempt();
    record.append([A, B, C]);
    assert.deepEqual(readRecord(path).entries.map(({ message }) => message), [A, B, C]);
    assert.equal(reports.length, 1);
  }));

Deno.test("truncation keeps the newest with their ids and tells what it dropped, in all", () => {
  const text = [A, B, C].map((message) => `${recordJson(message)}\n`).join("");
  const by = { capsule: "bot", nowMs: 5 };
  const first = truncatedRecord(parseRecord(text), 2, by);
  assert.equal(first.dropped, 1);
  const content = parseRecord(first.text);
  assert.deepEqual(content.entries.map(({ message }) => message), [B, C]);
  assert.deepEqual(content.header, {
    type: "murmur.record",
    capsule: "bot",
    created_ms: 5,
    truncated: { dropped: 1, oldest_surviving_id: "msg_b", last_dropped_id: "msg_a", at_ms: 5 },
  });
  const second = parseRecord(truncatedRecord(content, 1, { capsule: "other", nowMs: 9 }).text);
  assert.deepEqual(second.header, {
    type: "murmur.record",
    capsule: "bot",
    created_ms: 5,
    truncated: { dropped: 2, oldest_surviving_id: "msg_c", last_dropped_id: "msg_b", at_ms: 9 },
  });
  assert.equal(truncatedRecord(second.header === null ? content : second, 5, by).dropped, 0);
});

Deno.test("a kept line is kept byte for byte, and reading any text never throws", () => {
  const odd = '{ "role":"user", "content":"x", "id":"msg_o", "unknown": 1 }';
  assert.ok(truncatedRecord(parseRecord(`${odd}\n`), 1, { capsule: "c", nowMs: 1 }).text.endsWith(`\n${odd}\n`));
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.string({ unit: "binary" }), fc.json(), fc.constant(recordJson(A)))), (lines) => {
      parseRecord(lines.join("\n"));
    }),
  );
});

Deno.test("two launches in one record: lines stay whole and both are read", () =>
  withStore((open) => {
    const one = open();
    const two = open();
    for (let i = 0; i < 50; i++) {
      one.record.append([userMessage(`one ${"x".repeat(i * 100)}`)]);
      two.record.append([userMessage(`two ${"y".repeat(i * 100)}`)]);
    }
    const content = readRecord(one.path);
    assert.equal(content.entries.length, 100);
    assert.equal(content.firstSkipped, null);
  }));

Deno.test("a handle for a peer file is named in the record and not kept", () =>
  withStore((open) => {
    const { record, path } = open();
    record.append([userMessage("fetch mh1.eyJ2IjoxfQ.c2lnbmF0dXJl now")]);
    const [line, ...more] = Deno.readTextFileSync(path).trim().split("\n");
    assert.deepEqual(more, []);
    assert.match(line!, /fetch <handle:[0-9a-f]{16}> now/);
    assert.equal(parseRecord(line!).entries.length, 1);
  }));
