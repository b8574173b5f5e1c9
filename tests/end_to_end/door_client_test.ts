/**
 * The official A2A client, unmodified, against the door of a real session.
 *
 * @module
 */
import assert from "node:assert/strict";
import { ClientFactory } from "@a2a-js/sdk/client";
import { agentProject, capsule } from "../support/agent_project.ts";
import { startSession } from "../support/door_session.ts";

Deno.test("the official client discovers, sends and reads the answer", async () => {
  await using project = await agentProject(
    capsule({ lifecycle: { task_acceptance: "queue", after_task: "sleep", queue_depth: 4 } }),
  );
  await using session = await startSession(project);
  const client = await new ClientFactory().createFromUrl(session.url);
  const answer = await client.sendMessage({
    tenant: "",
    metadata: undefined,
    configuration: undefined,
    message: {
      messageId: "m1",
      role: 1,
      parts: [{ content: { $case: "text", value: "hello" }, metadata: undefined, filename: "", mediaType: "" }],
      contextId: "",
      taskId: "",
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    },
  });
  console.log(JSON.stringify(answer));
  const { status, stderr } = await session.stop();

  assert.equal(status, 0, stderr + JSON.stringify(answer));
});
