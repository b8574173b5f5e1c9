/**
 * Older and HTTP+JSON forms of A2A: refusals, scopes and that nothing of them is there unless it was asked for.
 */
import assert from "node:assert/strict";
import { allEvents, message } from "../../tests/support/door_session.ts";
import { type LocalDoor, openLocalDoor } from "../../tests/support/local_door.ts";

const JSON_TYPE = { "content-type": "application/json" };
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

async function older(door: LocalDoor, method: string, params: unknown, headers: Record<string, string> = {}) {
  const response = await door.request("/", {
    method: "POST",
    headers: { ...JSON_TYPE, ...headers },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  return response.status === 200 ? await response.json() : { status: response.status, ...await response.json() };
}

const olderMessage = (more: object = {}) => ({
  message: { kind: "message", messageId: "m", role: "user", parts: [{ kind: "text", text: "hello" }], ...more },
});

Deno.test("A2A 0.3 is spoken to requests of that version, in its own words", async () => {
  await using door = openLocalDoor({ a2aCompat: ["v0.3"] });
  const { result } = await older(door, "message/send", olderMessage());
  assert.deepEqual([result.kind, result.status.state], ["task", "submitted"]);
  const task = await door.begin();
  assert.equal(task.text, "hello");
  assert.equal(
    (await older(door, "tasks/get", { id: task.id }, { "a2a-version": "0.3" })).result.status.state,
    "working",
  );
  const stream = await door.request("/", {
    method: "POST",
    headers: { ...JSON_TYPE, "last-event-id": "0" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 9, method: "tasks/resubscribe", params: { id: task.id } }),
  });
  door.tasks.progress(task.id, "inference turn 1");
  door.finish(task);
  const events = await allEvents(stream);
  assert.deepEqual(events.map(({ id, data }) => [id, data.id, data.result.kind]), [
    [null, 9, "task"],
    ["1", 9, "status-update"],
    [null, 9, "artifact-update"],
    ["2", 9, "status-update"],
  ]);
  assert.deepEqual(events.map(({ data }) => data.result.final), [undefined, false, undefined, true]);
  // An answer is held when the client asks to be blocked, and only then.
  const held = older(door, "message/send", { ...olderMessage(), configuration: { blocking: true } });
  door.finish(await door.begin());
  assert.equal((await held).result.status.state, "completed");
  assert.equal(
    (await older(door, "message/send", { ...olderMessage(), configuration: {} })).result.status.state,
    "submitted",
  );
});

Deno.test("0.3 refuses what 1.0 refuses, without details, and has nothing of murmur's own", async () => {
  await using door = openLocalDoor({ a2aCompat: ["v0.3"] });
  const code = async (method: string, params: unknown, headers: Record<string, string> = {}) => {
    const { error } = await older(door, method, params, headers);
    assert.ok(!("data" in error), JSON.stringify(error));
    return error.code;
  };
  for (
    const params of [
      {},
      { message: 5 },
      olderMessage({ messageId: "" }),
      olderMessage({ role: "agent" }),
      olderMessage({ role: "ROLE_USER" }),
      olderMessage({ parts: [] }),
      olderMessage({ parts: "x" }),
      olderMessage({ parts: [5] }),
      olderMessage({ parts: [{ kind: "text" }] }),
      olderMessage({ parts: [{ kind: "text", text: 5 }] }),
      olderMessage({ parts: [{ kind: "file" }] }),
      olderMessage({ parts: [{ kind: "file", file: { bytes: 5 } }] }),
      olderMessage({ parts: [{ kind: "data" }] }),
      olderMessage({ parts: [{ text: "x" }] }),
      olderMessage({ taskId: 5 }),
      olderMessage({ contextId: 5 }),
      olderMessage({ referenceTaskIds: 5 }),
      olderMessage({ referenceTaskIds: [5] }),
    ]
  ) {
    assert.equal(await code("message/send", params), -32602, JSON.stringify(params));
    assert.equal(await code("message/stream", params), -32602, JSON.stringify(params));
  }
  assert.equal(await code("message/send", olderMessage({ parts: [{ kind: "file", file: { uri: "u" } }] })), -32005);
  assert.equal(await code("message/send", olderMessage({ taskId: "tsk_none" })), -32001);
  assert.equal(await code("tasks/get", { id: "tsk_none" }), -32001);
  assert.equal(await code("tasks/get", {}), -32602);
  assert.equal(await code("tasks/get", { id: 5 }), -32602);
  assert.equal(await code("tasks/resubscribe", { id: "tsk_none" }), -32001);
  assert.equal(await code("tasks/pushNotificationConfig/set", {}), -32003);
  assert.equal(await code("agent/getAuthenticatedExtendedCard", {}), -32004);
  assert.equal(await code("tasks/get", []), -32602);
  for (
    const method of [
      "tasks/list",
      "GetTask",
      "murmur.StopSession",
      "murmur.WatchStream",
      "stream/watch",
      "session/stop",
    ]
  ) {
    assert.equal(await code(method, {}), -32601, method);
  }
  const completion = { "x-murmur-task-origin": "completion", "x-murmur-completion-session": door.sessionId };
  assert.equal((await older(door, "message/send", olderMessage(), completion)).error.code, -32601);
  // With 1.0 the rules of 1.0.
  assert.equal((await older(door, "message/send", olderMessage(), { "a2a-version": "1.0" })).error.code, -32601);
  assert.equal((await older(door, "GetTask", {}, { "a2a-version": "0.4" })).error.code, -32009);
  assert.equal((await door.rpc("ListTasks")).result.totalSize, 0);
});

Deno.test("older and HTTP+JSON calls need the scope of the method they mean", async () => {
  await using door = openLocalDoor({ a2aCompat: ["v0.3", "rest"], credentials: { reader: ["GetTask"] } });
  const reader = bearer(door.tokens!.credentials().get("reader")!);
  const refused = await older(door, "message/send", olderMessage(), reader);
  assert.deepEqual([refused.status, refused.error, refused.message], [
    403,
    "insufficient_scope",
    "credential 'reader' does not reach SendMessage",
  ]);
  assert.equal((await older(door, "tasks/get", { id: "tsk_none" }, reader)).error.code, -32001);
  assert.equal((await older(door, "tasks/get", { id: "x" })).status, 401);
  const card = await older(door, "agent/getAuthenticatedExtendedCard", undefined, reader);
  assert.equal(card.result.name, "probe");
  assert.ok(JSON.stringify(card.result).includes(door.sessionId));
  const rest = { ...reader, "a2a-version": "1.0" };
  for (
    const [path, status] of [["/tasks", 403], ["/tasks/x", 404], ["/extendedAgentCard", 200], [
      "/tasks/x:subscribe",
      403,
    ]] as const
  ) {
    const answer = await door.request(path, { headers: rest });
    assert.equal(answer.status, status, path);
    await answer.body?.cancel();
  }
  const anonymous = await door.request("/tasks/x", { headers: { "a2a-version": "1.0" } });
  assert.equal(anonymous.status, 401);
  await anonymous.body?.cancel();
});

Deno.test("HTTP+JSON answers with the standard's statuses and bodies", async () => {
  await using door = openLocalDoor({ a2aCompat: ["rest"] });
  const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const response = await door.request(path, {
      method,
      headers: { "a2a-version": "1.0", ...(body === undefined ? {} : JSON_TYPE), ...headers },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      type: response.headers.get("content-type"),
      body: text === "" ? null : JSON.parse(text),
    };
  };
  const sent = await call("POST", "/message:send", message("hello"), { "content-type": "application/a2a+json" });
  assert.deepEqual([sent.status, sent.type, sent.body.task.status.state], [
    200,
    "application/a2a+json",
    "TASK_STATE_SUBMITTED",
  ]);
  const { id } = sent.body.task;
  assert.equal((await call("GET", `/tasks/${id}`)).body.id, id);
  assert.deepEqual((await call("GET", "/tasks?pageSize=1&includeArtifacts=true")).body, {
    tasks: [{
      id,
      contextId: sent.body.task.contextId,
      status: (await call("GET", "/tasks")).body.tasks[0].status,
      artifacts: [],
    }],
    nextPageToken: "",
    pageSize: 1,
    totalSize: 1,
  });
  const errors: [
    Promise<{ status: number; body: { error: { code: number; details: { reason: string }[] } } }>,
    number,
    string,
  ][] = [
    [call("GET", "/tasks/tsk_none"), 404, "TASK_NOT_FOUND"],
    [call("GET", "/tasks?pageSize=0"), 400, "INVALID_PARAMS"],
    [call("GET", "/tasks?status=working"), 400, "INVALID_PARAMS"],
    [call("POST", "/message:send", "nope"), 400, "INVALID_PARAMS"],
    [call("POST", "/message:send", []), 400, "INVALID_PARAMS"],
    [call("POST", "/message:send", {}), 400, "INVALID_PARAMS"],
    [call("POST", "/message:stream", {}), 400, "INVALID_PARAMS"],
    [call("POST", "/message:send", message("x", { parts: [{ url: "u" }] })), 400, "CONTENT_TYPE_NOT_SUPPORTED"],
    [call("POST", "/message:send", message("x", { taskId: id })), 400, "UNSUPPORTED_OPERATION"],
    [call("GET", "/extendedAgentCard"), 400, "UNSUPPORTED_OPERATION"],
    [call("GET", "/tasks", undefined, { "a2a-version": "0.3" }), 400, "VERSION_NOT_SUPPORTED"],
    [call("GET", `/tasks/${id}/pushNotificationConfigs`), 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"],
    [call("GET", "/tasks", undefined, { "x-murmur-task-origin": "completion" }), 400, "INVALID_PARAMS"],
    [call("POST", "/message:send", message("x"), { "x-murmur-forget-session": "true" }), 400, "INVALID_PARAMS"],
  ];
  for (const [answer, status, reason] of errors) {
    const { status: got, body } = await answer;
    assert.deepEqual([got, body.error.code, body.error.details[0]!.reason], [status, status, reason]);
  }
  assert.equal((await call("POST", `/tasks/${id}:cancel`)).body.status.state, "TASK_STATE_CANCELED");
  assert.deepEqual((await call("POST", `/tasks/${id}:cancel`)).body.error.details[0].reason, "TASK_NOT_CANCELABLE");
  // What a page's form could send is no call.
  for (const type of ["text/plain", "application/x-www-form-urlencoded"]) {
    assert.equal((await call("POST", "/message:send", message("x"), { "content-type": type })).status, 404);
    assert.equal((await call("POST", `/tasks/${id}:cancel`, "x", { "content-type": type })).status, 404);
  }
  const stream = await door.request("/message:stream", {
    method: "POST",
    headers: { "a2a-version": "1.0", ...JSON_TYPE },
    body: JSON.stringify(message("one")),
  });
  assert.equal(stream.headers.get("content-type"), "text/event-stream");
  door.finish(await door.begin());
  const events = await allEvents(stream);
  assert.deepEqual(events.map(({ id, data }) => [id, Object.keys(data)[0]]), [
    [null, "task"],
    [null, "artifactUpdate"],
    ["2", "statusUpdate"],
  ]);
});

Deno.test("neither form is there unless the manifest asks for it", async () => {
  await using door = openLocalDoor();
  assert.equal((await older(door, "message/send", olderMessage())).error.code, -32009);
  for (const [method, path] of [["POST", "/message:send"], ["GET", "/tasks"], ["POST", "/v1/message:send"]] as const) {
    const answer = await door.request(path, {
      method,
      headers: JSON_TYPE,
      ...(method === "POST" ? { body: "{}" } : {}),
    });
    assert.deepEqual([answer.status, await answer.text()], [404, ""]);
  }
  await using none = openLocalDoor({ a2aCompat: ["v0.3", "rest"], acceptance: "none" });
  assert.equal((await older(none, "message/send", olderMessage())).error.code, -32601);
  const refused = await none.request("/message:send", {
    method: "POST",
    headers: { "a2a-version": "1.0", ...JSON_TYPE },
    body: JSON.stringify(message("x")),
  });
  assert.equal((await refused.json()).error.details[0].reason, "UNSUPPORTED_OPERATION");
});
