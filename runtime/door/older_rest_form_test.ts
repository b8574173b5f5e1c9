import assert from "node:assert/strict";
import { newerMessageParams, olderCard, olderEvent, olderTask } from "./older_rest_form.ts";

Deno.test("a message's parts move between the two forms", () => {
  assert.deepEqual(
    newerMessageParams({
      message: {
        messageId: "m",
        role: "ROLE_USER",
        content: [
          { text: "a" },
          { data: { data: { x: 1 } } },
          { file: { fileWithUri: "u", mimeType: "image/png" } },
          { file: { fileWithBytes: "AA==" } },
        ],
      },
      configuration: { blocking: true },
    }),
    {
      message: {
        messageId: "m",
        role: "ROLE_USER",
        parts: [{ text: "a" }, { data: { x: 1 } }, { url: "u", mediaType: "image/png" }, { raw: "AA==" }],
      },
      configuration: { returnImmediately: false },
    },
  );
  assert.deepEqual(newerMessageParams({ message: { content: 5 }, configuration: {} }), {
    message: { parts: 5 },
    configuration: { returnImmediately: true },
  });
  assert.deepEqual(newerMessageParams({ message: "x" }), {});
  assert.deepEqual(newerMessageParams({}), {});
});

Deno.test("tasks and events take the older names", () => {
  const message = { messageId: "m", role: "ROLE_AGENT", parts: [{ text: "t", mediaType: "text/plain" }] };
  const task = {
    id: "t",
    status: { state: "TASK_STATE_CANCELED", message },
    artifacts: [{ artifactId: "residue", parts: [{ data: { kind: "x" } }, { data: 5 }] }],
  };
  const older = {
    id: "t",
    status: {
      state: "TASK_STATE_CANCELLED",
      message: { messageId: "m", role: "ROLE_AGENT", content: [{ text: "t" }] },
    },
    artifacts: [{
      artifactId: "residue",
      parts: [{ data: { data: { kind: "x" } } }, { data: { data: { value: 5 } } }],
    }],
  };
  assert.deepEqual(olderTask(task), older);
  assert.deepEqual(olderEvent({ task }), { task: older });
  assert.deepEqual(olderEvent({ statusUpdate: { taskId: "t", status: { state: "TASK_STATE_COMPLETED" } } }), {
    statusUpdate: { taskId: "t", status: { state: "TASK_STATE_COMPLETED" }, final: true },
  });
  assert.deepEqual(olderEvent({ statusUpdate: { taskId: "t", status: { state: "TASK_STATE_INPUT_REQUIRED" } } }), {
    statusUpdate: { taskId: "t", status: { state: "TASK_STATE_INPUT_REQUIRED" }, final: false },
  });
  assert.deepEqual(
    olderEvent({
      artifactUpdate: { taskId: "t", lastChunk: true, artifact: { artifactId: "a", parts: [{ text: "x" }] } },
    }),
    { artifactUpdate: { taskId: "t", lastChunk: true, artifact: { artifactId: "a", parts: [{ text: "x" }] } } },
  );
  assert.deepEqual(olderCard({ name: "n", securityRequirements: [1], security: [2] }).security, [1]);
});
