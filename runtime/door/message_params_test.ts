import assert from "node:assert/strict";
import type { JsonObject, JsonValue } from "../../base/json_value.ts";
import { MAX_ID_LENGTH, type MessageParams, readMessageParams } from "./message_params.ts";

const TEXT = { text: "hello" };

function read(message: JsonValue, more: JsonObject = {}) {
  return readMessageParams({ message, ...more });
}

function refusal(message: JsonValue): string {
  const result = read(message);
  assert.ok("code" in result, JSON.stringify(message));
  return `${result.code} ${result.message}`;
}

const good = (more: JsonObject = {}): JsonObject => ({ messageId: "m", role: "ROLE_USER", parts: [TEXT], ...more });

Deno.test("the first thing that is wrong with a message is named, in the order of the checks", () => {
  const invalid = "-32602 Invalid params: ";
  const cases: [JsonValue, string][] = [
    [null, "message must be an object"],
    ["text", "message must be an object"],
    [[], "message must be an object"],
    [{}, "message.messageId must be a non-empty string"],
    [good({ messageId: "", role: 5 }), "message.messageId must be a non-empty string"],
    [good({ messageId: 5 }), "message.messageId must be a non-empty string"],
    [{ message_id: "m", role: "ROLE_USER", parts: [TEXT] }, "message.messageId must be a non-empty string"],
    [good({ role: "user", parts: [] }), "message.role must be ROLE_USER"],
    [good({ role: "ROLE_AGENT" }), "message.role must be ROLE_USER"],
    [good({ role: 1 }), "message.role must be ROLE_USER"],
    [good({ parts: [] }), "message.parts must be a non-empty list"],
    [good({ parts: null }), "message.parts must be a non-empty list"],
    [good({ parts: { 0: TEXT } }), "message.parts must be a non-empty list"],
    [good({ parts: [TEXT, "text"], taskId: 5 }), "message.parts[1] must set exactly one of text, raw, url and data"],
    [good({ parts: [{}] }), "message.parts[0] must set exactly one of text, raw, url and data"],
    [good({ parts: [{ text: null }] }), "message.parts[0] must set exactly one of text, raw, url and data"],
    [good({ parts: [{ text: "a", data: null }] }), "message.parts[0] must set exactly one of text, raw, url and data"],
    [good({ parts: [{ text: "a", url: "b" }] }), "message.parts[0] must set exactly one of text, raw, url and data"],
    [good({ parts: [{ kind: "text" }] }), "message.parts[0] must set exactly one of text, raw, url and data"],
    [good({ parts: [{ text: 5 }] }), "message.parts[0].text must be a string"],
    [good({ parts: [{ raw: 5 }] }), "message.parts[0].raw must be a string"],
    [good({ parts: [{ url: {} }] }), "message.parts[0].url must be a string"],
    [good({ parts: [{ text: "a", mediaType: 5 }] }), "message.parts[0].mediaType must be a string"],
    [good({ parts: [TEXT, { data: 1, filename: [] }] }), "message.parts[1].filename must be a string"],
    // A part of a wrong shape is found before a wrong field of an earlier one.
    [good({ parts: [{ text: 5 }, {}] }), "message.parts[1] must set exactly one of text, raw, url and data"],
    [good({ taskId: 5, contextId: 5 }), "message.taskId must be a string"],
    [good({ contextId: {}, referenceTaskIds: 5 }), "message.contextId must be a string"],
    [good({ referenceTaskIds: "tsk" }), "message.referenceTaskIds must be a list of task ids"],
    [good({ referenceTaskIds: [""] }), "message.referenceTaskIds must be a list of task ids"],
    [good({ referenceTaskIds: [5] }), "message.referenceTaskIds must be a list of task ids"],
    [
      good({ referenceTaskIds: Array.from({ length: 17 }, (_, i) => `t${i}`), parts: [{ url: "x" }] }),
      "message.referenceTaskIds names more than 16 tasks",
    ],
  ];
  for (const [message, text] of cases) assert.equal(refusal(message), invalid + text);
  assert.ok("code" in readMessageParams(good()));
});

Deno.test("ids are of any kind, and of bounded length", () => {
  const long = "\u00e9".repeat(MAX_ID_LENGTH);
  for (const [field, of] of [["messageId", 1], ["contextId", 1], ["referenceTaskIds", 2]] as const) {
    const value = (id: string): JsonValue => of === 1 ? id : ["t", id];
    assert.ok(!("code" in read(good({ [field]: value(long) }))), field);
    assert.equal(
      refusal(good({ [field]: value(`${long}x`) })),
      `-32602 Invalid params: message.${field} holds an id of more than ${MAX_ID_LENGTH} characters`,
    );
  }
  assert.equal(
    refusal(good({ contextId: `${long}x`, parts: [{}] })),
    "-32602 Invalid params: message.parts[0] must set exactly one of text, raw, url and data",
  );
});

Deno.test("the first file part is refused, when everything else is in order", () => {
  assert.deepEqual(read(good({ parts: [TEXT, { url: "u", mediaType: "image/png" }, { raw: "AA==" }] })), {
    code: -32005,
    message: "message.parts[1] is a url part; this agent reads text and data parts only",
    data: [{
      "@type": "type.googleapis.com/google.rpc.ErrorInfo",
      reason: "CONTENT_TYPE_NOT_SUPPORTED",
      domain: "a2a-protocol.org",
      metadata: { partIndex: "1", mediaType: "image/png" },
    }],
  });
  const raw = read(good({ parts: [{ raw: "" }] }));
  assert.ok("code" in raw);
  assert.match(raw.message, /^message\.parts\[0\] is a raw part/);
  assert.deepEqual(raw.data![0]!.metadata, { partIndex: "0" });
});

Deno.test("a message in order is read; absent, empty and null mean the same for what is optional", () => {
  const { message } = read(good({
    parts: [{ text: "" }, { data: null, mediaType: "application/json", filename: "a.json", metadata: { x: 1 } }],
    taskId: "",
    contextId: null,
    referenceTaskIds: ["b", "a", "b"],
    metadata: 5,
    extensions: "x",
  })) as MessageParams;
  assert.deepEqual(message, {
    messageId: "m",
    parts: [
      { kind: "text", text: "" },
      { kind: "data", data: null, mediaType: "application/json", filename: "a.json" },
    ],
    taskId: null,
    contextId: null,
    referenceTaskIds: ["b", "a"],
  });
  const many = Array.from({ length: 40 }, (_, i) => `t${i % 16}`);
  assert.ok(!("code" in read(good({ referenceTaskIds: many, contextId: "any text", taskId: "t" }))));
  assert.ok(!("code" in read(good({ referenceTaskIds: null }))));
});

Deno.test("only a configuration that is an object and asks for no immediate answer holds the request", () => {
  const cases: [JsonValue | undefined, string][] = [
    [undefined, "at_once"],
    [null, "at_once"],
    ["x", "at_once"],
    [[], "at_once"],
    [{ returnImmediately: true }, "at_once"],
    [{}, "settled"],
    [{ returnImmediately: false }, "settled"],
    [{ returnImmediately: "true" }, "settled"],
    [{ blocking: false }, "settled"],
  ];
  for (const [configuration, answer] of cases) {
    const result = read(good(), configuration === undefined ? {} : { configuration }) as MessageParams;
    assert.equal(result.answer, answer, JSON.stringify(configuration));
  }
});
