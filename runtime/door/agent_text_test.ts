import assert from "node:assert/strict";
import fc from "fast-check";
import type { JsonValue } from "../../base/json_value.ts";
import type { TaskView } from "../session/task_registry.ts";
import { agentText } from "./agent_text.ts";
import type { IncomingMessage, MessagePart } from "./message_params.ts";

const message = (parts: readonly MessagePart[], referenceTaskIds: readonly string[] = []): IncomingMessage => ({
  messageId: "m",
  parts,
  taskId: null,
  contextId: null,
  referenceTaskIds,
});
const data = (value: JsonValue, mediaType: string | null = null, filename: string | null = null): MessagePart => ({
  kind: "data",
  data: value,
  mediaType,
  filename,
});
const none = () => null;

Deno.test("parts are joined by one newline, data in a fence that says what it is", () => {
  assert.equal(
    agentText(
      message([
        { kind: "text", text: "look:\n" },
        data({ a: [1, "two"] }, "application/json", "report one.json"),
        data(null),
        { kind: "text", text: "" },
      ]),
      none,
    ),
    'look:\n\n```data media-type=application/json filename=report_one.json\n{\n  "a": [\n    1,\n    "two"\n  ]\n}\n```\n' +
      "```data\nnull\n```\n",
  );
});

Deno.test("no value ends its own fence, and no label says more than its two values", () => {
  const text = fc.oneof(fc.string(), fc.stringMatching(/^[`\n= a]{0,30}$/));
  fc.assert(fc.property(fc.jsonValue(), text, text, (value, mediaType, filename) => {
    const shown = agentText(message([data(value as JsonValue, mediaType, filename)]), none);
    const [opening, ...lines] = shown.split("\n");
    const fence = /^`{3,}/.exec(opening!)![0];
    assert.equal(lines.pop(), fence);
    assert.ok(!lines.join("\n").includes(fence));
    assert.match(opening!, /^`+data media-type=[^\s`=]* filename=[^\s`=]*$/);
    assert.deepEqual(JSON.parse(lines.join("\n")), JSON.parse(JSON.stringify(value)));
  }));
});

const task = (id: string, more: Partial<TaskView>): TaskView => ({
  id,
  contextId: "c",
  state: "working",
  message: null,
  response: null,
  prompt: null,
  changedMs: 0,
  submitter: null,
  ...more,
});

Deno.test("referenced tasks are told in the order they are named, each with what came of it", () => {
  const tasks = new Map([
    task("tsk_1", { state: "completed", message: "session ended", response: "42 ``` 43" }),
    task("tsk_2", { state: "failed", message: "max_turns exceeded:\n  the task used all 5 inference turns\r\n" }),
    task("tsk_3", { message: "inference turn 1" }),
    task("tsk_5", { state: "completed", message: "session ended" }),
    task("tsk_6", { state: "input-required", prompt: "Which?" }),
    task("tsk_7", { state: "canceled", message: "task canceled" }),
    task("tsk_8", { state: "rejected", message: null }),
  ].map((view) => [view.id, view]));
  const ids = ["tsk_1", "tsk_2", "tsk_3", "tsk_4", "tsk_5", "tsk_6", "tsk_7", "tsk_8"];
  assert.equal(
    agentText(message([{ kind: "text", text: "go on" }], ids), (id) => tasks.get(id) ?? null),
    `go on

Referenced tasks:
- tsk_1: completed
\`\`\`\`response
42 \`\`\` 43
\`\`\`\`
- tsk_2: failed: max_turns exceeded: the task used all 5 inference turns
- tsk_3: working
- tsk_4: not a task this capsule holds
- tsk_5: completed
- tsk_6: input-required
- tsk_7: canceled: task canceled
- tsk_8: rejected`,
  );
  assert.equal(
    agentText(message([{ kind: "text", text: "x" }], ["a\n- tsk_1: completed"]), none),
    "x\n\nReferenced tasks:\n- a - tsk_1: completed: not a task this capsule holds",
  );
});
