import assert from "node:assert/strict";
import { allEvents, doorCalls, message, type RpcAnswer, sentEvents } from "../../tests/support/door_session.ts";
import { type LocalDoor, openLocalDoor } from "../../tests/support/local_door.ts";
import { rawAnswer, rawRequest } from "../../tests/support/raw_answer.ts";
import { MurError } from "../../base/errors.ts";
import { MAX_REQUESTS, MAX_STREAMS } from "./request_place.ts";

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const JSON_TYPE = { "content-type": "application/json" };
const CALL = { ...JSON_TYPE, "a2a-version": "1.0" };
const LIST = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ListTasks" });
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** A request's head and body as they go over the wire. */
function wire(method: string, target: string, headers: Readonly<Record<string, string>>, body = ""): string {
  const all = { host: "localhost", ...headers, ...(body === "" ? {} : { "content-length": String(body.length) }) };
  return `${method} ${target} HTTP/1.1\r\n${
    Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join("")
  }\r\n${body}`;
}

interface WireAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

function parsed(text: string): WireAnswer {
  const [head, ...body] = text.split("\r\n\r\n");
  const [line, ...fields] = head!.split("\r\n");
  return {
    status: Number(line!.split(" ")[1]),
    headers: new Headers(fields.map((field): [string, string] => {
      const colon = field.indexOf(":");
      return [field.slice(0, colon), field.slice(colon + 1).trim()];
    })),
    body: body.join("\r\n\r\n"),
  };
}

async function send(
  door: LocalDoor,
  method: string,
  target: string,
  headers: Readonly<Record<string, string>> = {},
  body = "",
): Promise<WireAnswer> {
  return parsed(await door.raw(wire(method, target, headers, body), 100));
}

const codeOf = ({ error }: RpcAnswer) => error?.code;
const reasonOf = ({ error }: RpcAnswer) => [error?.code, error?.data?.[0]?.reason, error?.data?.[0]?.metadata];

const EVERY_PATH: readonly (readonly [string, string])[] = [
  ["GET", "/.well-known/agent-card.json"],
  ["POST", "/"],
  ["GET", "/"],
  ["GET", "/control"],
  ["PUT", "/control/settings/x"],
  ["GET", "/resources"],
  ["GET", "/resources/files"],
  ["GET", "/resources/peer/x"],
  ["POST", "/message:send"],
  ["GET", "/tasks"],
  ["OPTIONS", "/"],
  ["GET", "/anything"],
];

Deno.test("a foreign host or origin is refused on every path, before anything else", async () => {
  await using door = openLocalDoor({ credentials: {}, origins: ["https://ui.example"], a2aCompat: ["rest", "v0.3"] });
  for (const [method, path] of EVERY_PATH) {
    for (
      const [headers, error, text] of [
        [{ host: "evil.example" }, "host_not_allowed", "this door does not answer for that host"],
        [{ host: "localhost.evil.example:80" }, "host_not_allowed", "this door does not answer for that host"],
        [{ origin: "https://evil.example" }, "origin_not_allowed", "this door does not answer to that origin"],
        [{ origin: "null" }, "origin_not_allowed", "this door does not answer to that origin"],
      ] as const
    ) {
      const answer = await send(door, method, path, { ...CALL, ...headers }, method === "POST" ? LIST : "");
      assert.equal(answer.status, 403, `${method} ${path}`);
      assert.equal(answer.headers.get("content-type"), "application/json");
      assert.equal(answer.headers.get("access-control-allow-origin"), null);
      assert.deepEqual(JSON.parse(answer.body), { error, message: text });
    }
  }
  // Two lines of Host are none the door answers for.
  const twice = await door.raw(
    "GET /.well-known/agent-card.json HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
  );
  assert.match(twice, /^HTTP\/1\.1 (400|403) /);
});

Deno.test("a page of a listed origin asks first and may read the answers, but nothing of the planes", async () => {
  await using door = openLocalDoor({ origins: ["https://ui.example"], hosts: ["agent.example"] });
  const origin = "https://ui.example";
  const preflight = await send(door, "OPTIONS", "/", { origin, "access-control-request-method": "POST" });
  assert.equal(preflight.status, 204);
  assert.equal(preflight.headers.get("access-control-allow-origin"), origin);
  assert.equal(preflight.headers.get("vary"), "origin");
  assert.equal(preflight.headers.get("access-control-allow-methods"), "POST");
  assert.match(preflight.headers.get("access-control-allow-headers")!, /a2a-version.*authorization.*content-type/);
  const call = await send(door, "POST", "/", { ...CALL, origin, host: "AGENT.example:443" }, LIST);
  assert.equal(call.status, 200);
  assert.equal(call.headers.get("access-control-allow-origin"), origin);
  assert.equal(call.headers.get("vary"), "origin");
  const card = await send(door, "GET", "/.well-known/agent-card.json", { origin });
  assert.equal(card.headers.get("access-control-allow-origin"), origin);
  for (const path of ["/resources", "/resources/files", "/resources/peer/x"]) {
    const plane = await send(door, "GET", path, { origin });
    assert.equal(plane.status, 404);
    assert.equal(plane.headers.get("access-control-allow-origin"), null);
  }
  assert.equal((await send(door, "OPTIONS", "/other", { origin })).status, 404);
  assert.equal((await send(door, "OPTIONS", "/tasks", { origin })).status, 404);
  await using rest = openLocalDoor({ origins: [origin], a2aCompat: ["rest"] });
  for (
    const [path, methods] of [["/tasks?pageSize=1", "GET"], ["/tasks/t:subscribe", "GET, POST"], [
      "/message:send",
      "POST",
    ]]
  ) {
    const asked = await send(rest, "OPTIONS", path!, { origin });
    assert.deepEqual([asked.status, asked.headers.get("access-control-allow-methods")], [204, methods]);
  }
  assert.equal((await send(door, "OPTIONS", "/")).status, 404);
  // Without an origin nothing of this is told.
  const plain = await send(door, "POST", "/", CALL, LIST);
  assert.equal(plain.headers.get("access-control-allow-origin"), null);
  assert.equal(plain.headers.get("vary"), null);
});

Deno.test("only POST / with a body that is application/json is a call; everything else is not found, with no body", async () => {
  await using door = openLocalDoor();
  const absent: [string, string, Record<string, string>, string][] = [
    ["GET", "/", {}, ""],
    ["HEAD", "/", {}, ""],
    ["HEAD", "/.well-known/agent-card.json", {}, ""],
    ["POST", "/.well-known/agent-card.json", CALL, LIST],
    ["POST", "/rpc", CALL, LIST],
    ["POST", "/?x=1", CALL, LIST],
    ["POST", "//", CALL, LIST],
    ["POST", "/./", CALL, LIST],
    ["PUT", "/", CALL, LIST],
    ["OPTIONS", "/", {}, ""],
    ["POST", "/", {}, LIST],
    ["POST", "/", { "content-type": "text/plain" }, LIST],
    ["POST", "/", { "content-type": "text/plain; application/json" }, LIST],
    ["POST", "/", { "content-type": "application/jsonp" }, LIST],
    ["POST", "/", { "content-type": "application/json, text/plain" }, LIST],
    ["POST", "/", { "content-type": "x-application/json" }, LIST],
    ["POST", "/", CALL, ""],
    ["POST", "/", { ...CALL, "content-length": "0" }, ""],
    ["GET", "/control", {}, ""],
    ["GET", "/control/", {}, ""],
    ["POST", "/message:send", CALL, "{}"],
    ["GET", "/tasks", CALL, ""],
    ["GET", "/v1/card", CALL, ""],
  ];
  for (const [method, target, headers, body] of absent) {
    const answer = await send(door, method, target, headers, body);
    assert.deepEqual([answer.status, answer.body], [404, ""], `${method} ${target} ${JSON.stringify(headers)}`);
    assert.equal(answer.headers.get("content-length"), "0");
  }
  for (
    const type of ["application/json", "APPLICATION/JSON", "application/json; charset=utf-8", " application/json ;x"]
  ) {
    const answer = await send(door, "POST", "/", { ...CALL, "content-type": type }, LIST);
    assert.equal(answer.status, 200, type);
    assert.equal(answer.headers.get("content-type"), "application/json");
    assert.equal(answer.headers.get("content-length"), String(answer.body.length));
    assert.equal(answer.headers.get("connection"), "close");
  }
  // A body in chunks is one too, and an empty one is none.
  const chunked = (chunks: string) =>
    door.raw(
      `POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`,
      100,
    );
  assert.match(await chunked(`${LIST.length.toString(16)}\r\n${LIST}\r\n`), /"totalSize":0/);
  assert.match(await chunked(""), /^HTTP\/1\.1 404 /);
});

Deno.test("the planes answer in JSON that they are not declared; the raw path decides", async () => {
  await using door = openLocalDoor();
  for (
    const [method, path, status, error] of [
      ["GET", "/resources", 404, "no_resource_plane"],
      ["GET", "/resources/files/a", 404, "no_resource_plane"],
      ["GET", "/resources/../control", 404, "no_resource_plane"],
      ["GET", "/resources/other", 404, "no_resource_plane"],
      ["GET", "/resources/peer/mh1.x.y", 404, "no_peer_plane"],
      ["POST", "/resources/files", 405, "method_not_allowed"],
      ["DELETE", "/resources/peer/x", 405, "method_not_allowed"],
      ["OPTIONS", "/resources", 405, "method_not_allowed"],
    ] as const
  ) {
    const answer = await send(door, method, path);
    assert.deepEqual([answer.status, JSON.parse(answer.body).error], [status, error], `${method} ${path}`);
    assert.equal(answer.headers.get("content-type"), "application/json");
    assert.equal(answer.headers.get("allow"), status === 405 ? "GET" : null);
  }
});

Deno.test("a target in absolute form means its path, never its query, and is refused with a foreign host in it", async () => {
  await using door = openLocalDoor();
  for (
    const [target, status, error] of [
      ["http://localhost/resources/files/a", 404, "no_resource_plane"],
      [`HTTP://LOCALHOST:${door.port}/resources/peer/mh1.x.y?q`, 404, "no_peer_plane"],
      ["http://localhost?x=/resources/files/a", 404, null],
      ["http://localhost?/resources/peer/mh1.x.y", 404, null],
      ["http://localhost", 404, null],
      ["http://evil.example/resources/files/a", 403, "host_not_allowed"],
      ["http://evil.example?/resources/files/a", 403, "host_not_allowed"],
      ["http://localhost@evil.example/resources/files/a", 403, "host_not_allowed"],
      ["http://evil.example/.well-known/agent-card.json", 403, "host_not_allowed"],
    ] as const
  ) {
    const answer = rawAnswer(await door.raw(rawRequest(target)));
    assert.deepEqual(
      [answer.status, answer.body === "" ? null : JSON.parse(answer.body).error],
      [status, error],
      target,
    );
  }
});

Deno.test("an authenticated door wants a token before it looks at path, body or method", async () => {
  await using door = openLocalDoor({ credentials: { ci: ["SendMessage", "GetTask"], files: ["resources/files"] } });
  const challenge = 'Bearer realm="probe"';
  for (
    const [method, path] of [["POST", "/"], ["GET", "/nowhere"], ["DELETE", "/"], ["GET", "/resources/files"]] as const
  ) {
    const none = await send(door, method, path, CALL, method === "POST" ? "not json" : "");
    assert.deepEqual([none.status, none.headers.get("www-authenticate")], [401, challenge]);
    assert.equal(JSON.parse(none.body).error, "unauthenticated");
    const wrong = await send(door, method, path, { ...CALL, ...bearer("mdt1.e30.AAAA") });
    assert.deepEqual([wrong.status, wrong.headers.get("www-authenticate")], [
      401,
      `${challenge}, error="invalid_token"`,
    ]);
    assert.equal(JSON.parse(wrong.body).error, "invalid_token");
  }
  const operator = bearer(door.tokens!.operator());
  const [ci, files] = ["ci", "files"].map((name) => bearer(door.tokens!.credentials().get(name)!));
  // Two lines of Authorization are none, even when both are good.
  const twice = await door.raw(
    `POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: ${operator.authorization}\r\n` +
      `Authorization: ${operator.authorization}\r\nContent-Length: 2\r\n\r\n{}`,
    100,
  );
  assert.match(twice, /^HTTP\/1\.1 401 [\s\S]*"invalid_token"/);
  // What needs no token: the card, and what checks its own credential.
  assert.equal((await send(door, "GET", "/.well-known/agent-card.json")).status, 200);
  assert.equal((await send(door, "GET", "/resources/peer/x")).status, 404);
  assert.equal((await send(door, "GET", "/control")).status, 404);
  // A wrong media type is no call, whoever makes it.
  assert.equal((await send(door, "POST", "/", { "content-type": "text/plain" }, LIST)).status, 404);

  const scoped = async (method: string, token: Record<string, string>) =>
    parsed(
      await door.raw(
        wire("POST", "/", { ...CALL, ...token }, JSON.stringify({ jsonrpc: "2.0", id: 1, method })),
        100,
      ),
    );
  for (const method of ["SendStreamingMessage", "ListTasks", "CancelTask", "SubscribeToTask"]) {
    const refused = await scoped(method, ci!);
    assert.equal(refused.status, 403);
    assert.deepEqual(JSON.parse(refused.body), {
      error: "insufficient_scope",
      message: `credential 'ci' does not reach ${method}`,
    });
    assert.equal(
      refused.headers.get("www-authenticate"),
      `${challenge}, error="insufficient_scope", scope="${method}"`,
    );
  }
  assert.match((await scoped("stream/watch", ci!)).headers.get("www-authenticate")!, /scope="murmur\.WatchStream"/);
  assert.match((await scoped("session/stop", ci!)).headers.get("www-authenticate")!, /scope="murmur\.StopSession"/);
  // The order: a method that is not served needs no scope, and a version comes first.
  assert.equal(JSON.parse((await scoped("tasks/list", ci!)).body).error.code, -32601);
  assert.equal(JSON.parse((await scoped("CreateTaskPushNotificationConfig", ci!)).body).error.code, -32003);
  assert.equal(codeOf(await door.rpc("ListTasks", {}, { ...ci, "a2a-version": "0.3" })), -32009);
  assert.equal(codeOf(await door.rpc("GetTask", {}, ci)), -32602);
  // The extended card is for every valid token.
  const { result } = await door.rpc("GetExtendedAgentCard", undefined, files);
  assert.ok(JSON.stringify(result).includes(door.sessionId));
  assert.ok(!(await send(door, "GET", "/.well-known/agent-card.json")).body.includes(door.sessionId));
  assert.equal(codeOf(await door.rpc("ListTasks", {}, operator)), undefined);
  // The operator plane.
  assert.equal(JSON.parse((await send(door, "GET", "/resources/files", ci)).body).error, "insufficient_scope");
  assert.equal(JSON.parse((await send(door, "GET", "/resources/files", files)).body).error, "no_resource_plane");
});

Deno.test("a peer's request needs consent, on every path and public doors too; the answer is always the same", async () => {
  await using door = openLocalDoor();
  const bodies = new Set<string>();
  for (const origin of ["peer", "PEER"]) {
    for (const [method, path] of [["POST", "/"], ["GET", "/resources/files"], ["GET", "/nowhere"]] as const) {
      const answer = await send(
        door,
        method,
        path,
        { ...CALL, "x-murmur-task-origin": origin },
        method === "POST" ? LIST : "",
      );
      assert.equal(answer.status, 403);
      assert.equal(answer.headers.get("www-authenticate"), null);
      bodies.add(answer.body);
    }
  }
  assert.deepEqual([...bodies].map((body) => JSON.parse(body)), [
    { error: "peer_not_accepted", message: "this capsule does not accept tasks from peers" },
  ]);
  await using open = openLocalDoor({ acceptsPeers: true, credentials: {} });
  const operator = bearer(open.tokens!.operator());
  const standing = async (headers: Record<string, string>) => {
    assert.equal(codeOf(await open.rpc("SendMessage", message("x"), { ...operator, ...headers })), undefined);
    const task = await open.begin();
    open.finish(task);
    return [task.standing.origin, task.standing.trust, task.standing.lane];
  };
  const [origin, trust] = ["x-murmur-task-origin", "x-murmur-task-trust"];
  assert.deepEqual(await standing({ [origin]: "peer", [trust]: "trusted" }), ["peer", "trusted", "peer"]);
  assert.deepEqual(await standing({ [origin]: "Peer", [trust]: "Trusted" }), ["peer", "untrusted", "peer"]);
  assert.deepEqual(await standing({ [trust]: "trusted" }), ["event", "untrusted", "bg"]);
  assert.deepEqual(await standing({ [origin]: "user", [trust]: "trusted" }), ["event", "untrusted", "bg"]);
});

Deno.test("trust is believed of nobody at a public door, whatever it presents", async () => {
  await using door = openLocalDoor({ acceptsPeers: true });
  const token = { authorization: "Bearer mdt1.e30.AAAA" };
  await door.rpc("SendMessage", message("x"), {
    ...token,
    "x-murmur-task-origin": "peer",
    "x-murmur-task-trust": "trusted",
    "traceparent": "00-1-2-01",
  });
  const task = await door.begin();
  assert.deepEqual([task.standing.trust, task.door!.traceparent, task.door!.partKinds], ["untrusted", "00-1-2-01", [
    "text",
  ]]);
});

Deno.test("bodies are judged in the order of the specification, one JSON answer each with status 200", async () => {
  await using door = openLocalDoor();
  const post = async (body: string, headers: Record<string, string> = CALL) => {
    const answer = await send(door, "POST", "/", headers, body);
    assert.equal(answer.status, 200);
    return JSON.parse(answer.body) as RpcAnswer;
  };
  assert.deepEqual(await post("nope"), {
    jsonrpc: "2.0",
    id: null,
    error: { code: -32700, message: "Invalid JSON payload" },
  });
  assert.deepEqual(await post(`[${LIST}]`), {
    jsonrpc: "2.0",
    id: null,
    error: { code: -32600, message: "Request payload validation error" },
  });
  assert.deepEqual(await post('{"jsonrpc":"1.0","id":"a","method":"x"}', JSON_TYPE), {
    jsonrpc: "2.0",
    id: "a",
    error: { code: -32600, message: "Request payload validation error" },
  });
  const unknown = JSON.stringify({ jsonrpc: "2.0", id: 7, method: "tasks/get", params: 5 });
  for (const [version, told] of [[undefined, ""], ["", ""], ["0.3", "0.3"], ["1", "1"], ["1.1", "1.1"]] as const) {
    assert.deepEqual(
      await post(unknown, version === undefined ? JSON_TYPE : { ...JSON_TYPE, "a2a-version": version }),
      {
        jsonrpc: "2.0",
        id: 7,
        error: {
          code: -32009,
          message: `A2A version '${told}' is not supported; this agent speaks 1.0`,
          data: [{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            reason: "VERSION_NOT_SUPPORTED",
            domain: "a2a-protocol.org",
            metadata: { requestedVersion: told, supportedVersions: "1.0" },
          }],
        },
      },
    );
  }
  const doubled = await door.raw(
    `POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\nA2A-Version: 1.0\r\n` +
      `Content-Length: ${LIST.length}\r\n\r\n${LIST}`,
    100,
  );
  assert.match(doubled, /"requestedVersion":"1\.0, 1\.0"/);
  assert.deepEqual(await post(unknown), {
    jsonrpc: "2.0",
    id: 7,
    error: { code: -32601, message: "Method not found" },
  });
  for (const params of ["5", "[]", "null", '"x"', "true"]) {
    assert.deepEqual(await post(`{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":${params}}`), {
      jsonrpc: "2.0",
      id: 1,
      error: { code: -32602, message: "params must be an object" },
    });
  }
  // A harness alone has a session to forget; the check comes before the parameters and only on the message methods.
  const forget = { "x-murmur-forget-session": "true" };
  for (const method of ["SendMessage", "SendStreamingMessage"]) {
    const answer = await door.rpc(method, message("x"), forget);
    assert.equal(codeOf(answer), -32602);
    assert.match(answer.error!.message, /x-murmur-forget-session/);
  }
  assert.equal(codeOf(await door.rpc("ListTasks", {}, forget)), undefined);
  assert.equal(codeOf(await door.rpc("SendMessage", message("x"), { "x-murmur-forget-session": "TRUE" })), undefined);
  assert.equal((await door.rpc("ListTasks")).result.totalSize, 1);
});

Deno.test("methods that are not offered say so as the standard does", async () => {
  await using door = openLocalDoor();
  for (
    const method of [
      "CreateTaskPushNotificationConfig",
      "GetTaskPushNotificationConfig",
      "ListTaskPushNotificationConfigs",
      "DeleteTaskPushNotificationConfig",
    ]
  ) {
    assert.deepEqual(reasonOf(await door.rpc(method, 5)), [-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", {}]);
  }
  assert.deepEqual(reasonOf(await door.rpc("GetExtendedAgentCard")), [-32004, "UNSUPPORTED_OPERATION", {}]);
  await using closed = openLocalDoor({ acceptance: "none" });
  for (const method of ["SendMessage", "SendStreamingMessage"]) {
    assert.equal(codeOf(await closed.rpc(method, message("x"))), -32601);
  }
  assert.equal((await closed.rpc("ListTasks")).result.totalSize, 0);
});

Deno.test("completions are answered ahead of everything that takes tasks, each with its own error", async () => {
  await using door = openLocalDoor({ acceptance: "none" });
  const completion = (more: Record<string, string>) => ({ "x-murmur-task-origin": "Completion", ...more });
  const here = { "x-murmur-completion-session": door.sessionId };
  assert.deepEqual(reasonOf(await door.rpc("SendMessage", {}, completion({}))), [
    -31001,
    "COMPLETION_MISADDRESSED",
    { addressedSession: "" },
  ]);
  assert.equal(codeOf(await door.rpc("GetTask", {}, completion(here))), -32601);
  assert.deepEqual(reasonOf(await door.rpc("SendMessage", {}, completion(here))), [
    -31002,
    "COMPLETION_NOT_AWAITED",
    {},
  ]);
  assert.deepEqual(
    reasonOf(await door.rpc("SendMessage", {}, completion({ ...here, "x-murmur-delegation-id": "dlg_1" }))),
    [-31002, "COMPLETION_NOT_AWAITED", { delegationId: "dlg_1" }],
  );
  assert.equal(codeOf(await door.rpc("SendMessage", {}, { ...completion({}), "a2a-version": "0.3" })), -32009);
});

Deno.test("a message starts a task; refused messages start nothing", async () => {
  await using door = openLocalDoor({ queueDepth: 1 });
  assert.match((await door.rpc("SendMessage", {})).error!.message, /^Invalid params: message/);
  assert.match(
    (await door.rpc("SendMessage", { role: "ROLE_USER", messageId: "m", parts: [{ text: "x" }] })).error!.message,
    /message/,
  );
  assert.deepEqual(
    reasonOf(await door.rpc("SendMessage", message("x", { parts: [{ url: "u" }] }))),
    [-32005, "CONTENT_TYPE_NOT_SUPPORTED", { partIndex: "0" }],
  );
  assert.equal((await door.rpc("ListTasks")).result.totalSize, 0);
  const { result: { task } } = await door.rpc("SendMessage", message("one", { contextId: "talk" }));
  assert.deepEqual(task, { id: task.id, contextId: "talk", status: { state: "TASK_STATE_SUBMITTED" } });
  assert.match(task.id, /^tsk_[0-9a-f]{32}$/);
  // No room: a task of its own that nobody finds again, also when the caller would wait.
  for (const configuration of [undefined, {}]) {
    const refused = (await door.rpc("SendMessage", message("two", {}, configuration))).result.task;
    assert.deepEqual(refused.status, {
      state: "TASK_STATE_REJECTED",
      message: {
        messageId: `msg_${refused.id}_status`,
        contextId: refused.contextId,
        taskId: refused.id,
        role: "ROLE_AGENT",
        parts: [{ text: "task rejected: capsule is busy", mediaType: "text/plain" }],
      },
    });
    assert.deepEqual(reasonOf(await door.rpc("GetTask", { id: refused.id })), [
      -32001,
      "TASK_NOT_FOUND",
      { taskId: refused.id },
    ]);
  }
  const running = await door.begin();
  assert.equal((await door.rpc("GetTask", { id: task.id })).result.status.state, "TASK_STATE_WORKING");
  door.finish(running);
  assert.deepEqual((await door.rpc("GetTask", { id: task.id, historyLength: 5 })).result, {
    id: task.id,
    contextId: "talk",
    status: {
      state: "TASK_STATE_COMPLETED",
      message: {
        messageId: `msg_${task.id}_status`,
        contextId: "talk",
        taskId: task.id,
        role: "ROLE_AGENT",
        parts: [{ text: "session ended", mediaType: "text/plain" }],
      },
    },
    artifacts: [{ artifactId: "response", name: "response", parts: [{ text: "42", mediaType: "text/plain" }] }],
  });
  // Two messages with one id are two tasks.
  const twin = message("x", { messageId: "same" });
  const first = (await door.rpc("SendMessage", twin)).result.task.id;
  door.finish(await door.begin());
  assert.notEqual(first, (await door.rpc("SendMessage", twin)).result.task.id);
});

Deno.test("a held request is answered when its task ends or asks, and never later than the door shuts", async () => {
  await using door = openLocalDoor();
  const held = door.rpc("SendMessage", message("one", {}, {}));
  const task = await door.begin();
  const question = door.tasks.requestInput(task.id, "Which one?", null);
  assert.deepEqual((await held).result.task, {
    id: task.id,
    contextId: task.contextId,
    status: { state: "TASK_STATE_INPUT_REQUIRED" },
    artifacts: [{ artifactId: "prompt", name: "prompt", parts: [{ text: "Which one?", mediaType: "text/plain" }] }],
  });
  const reply = door.rpc("SendMessage", message("this one", { taskId: task.id }, { returnImmediately: false }));
  assert.equal(await question, "this one");
  assert.equal((await door.rpc("GetTask", { id: task.id })).result.status.state, "TASK_STATE_WORKING");
  door.finish(task, { state: "failed", message: "input-timeout", response: null });
  assert.equal((await reply).result.task.status.message.parts[0].text, "input-timeout");
  // The caller leaves: only its waiting ends.
  const gone = new AbortController();
  const left = door.request("/", {
    method: "POST",
    headers: CALL,
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "SendMessage", params: message("two", {}, {}) }),
    signal: gone.signal,
  }).then(() => "answered", () => "left");
  const second = await door.begin();
  gone.abort();
  assert.equal(await left, "left");
  assert.equal((await door.rpc("GetTask", { id: second.id })).result.status.state, "TASK_STATE_WORKING");
  const last = door.rpc("SendMessage", message("three", {}, {}));
  await pause(50);
  await door.listener.close(500);
  assert.equal((await last).result.task.status.state, "TASK_STATE_SUBMITTED");
});

Deno.test("a message to a task goes to one that waits for it, and to no other", async () => {
  await using door = openLocalDoor();
  const { result: { task: { id } } } = await door.rpc("SendMessage", message("one", { contextId: "talk" }));
  const reply = (more: object) => door.rpc("SendMessage", message("re", { taskId: id, ...more }));
  assert.deepEqual(reasonOf(await reply({})), [
    -32004,
    "UNSUPPORTED_OPERATION",
    { taskId: id, state: "TASK_STATE_SUBMITTED" },
  ]);
  const task = await door.begin();
  assert.deepEqual(reasonOf(await reply({ contextId: "other" }))[2], { taskId: id, state: "TASK_STATE_WORKING" });
  const question = door.tasks.requestInput(id, "Which?", null);
  const wrong = await reply({ contextId: "other" });
  assert.equal(codeOf(wrong), -32602);
  assert.match(wrong.error!.message, /^Invalid params: message\.contextId/);
  assert.equal((await reply({ contextId: "talk" })).result.task.status.state, "TASK_STATE_WORKING");
  assert.equal(await question, "re");
  door.finish(task);
  assert.deepEqual(reasonOf(await reply({})), [
    -32004,
    "UNSUPPORTED_OPERATION",
    { taskId: id, state: "TASK_STATE_COMPLETED" },
  ]);
  assert.deepEqual(reasonOf(await door.rpc("SendMessage", message("x", { taskId: "tsk_none" }))), [
    -32001,
    "TASK_NOT_FOUND",
    { taskId: "tsk_none" },
  ]);
});

Deno.test("what a message refers to is told as it stands when the message arrives", async () => {
  await using door = openLocalDoor();
  await door.rpc("SendMessage", message("one"));
  const first = await door.begin();
  door.finish(first);
  const { result } = await door.rpc(
    "SendMessage",
    message("two", { referenceTaskIds: [first.id, "tsk_none", first.id] }),
  );
  const task = await door.begin();
  assert.equal(task.id, result.task.id);
  assert.equal(
    task.text,
    `two\n\nReferenced tasks:\n- ${first.id}: completed\n\`\`\`response\n42\n\`\`\`\n- tsk_none: not a task this capsule holds`,
  );
  assert.deepEqual(task.door!.referenceTaskIds, [first.id, "tsk_none"]);
});

Deno.test("tasks are found, listed and canceled", async () => {
  const residue = {
    kind: "detached_shell",
    work_id: "wrk_1",
    binary: "sleep",
    command: "sleep 90",
    started_at_ms: 5,
  } as const;
  let running = false;
  await using door = openLocalDoor({ residue: () => running ? [residue] : [] });
  assert.deepEqual(await door.rpc("ListTasks", {}), {
    jsonrpc: "2.0",
    id: (await door.rpc("ListTasks")).id as number - 1,
    result: { tasks: [], nextPageToken: "", pageSize: 50, totalSize: 0 },
  });
  assert.equal((await door.rpc("GetTask", {})).error!.message, "GetTask requires an id");
  assert.equal(codeOf(await door.rpc("GetTask", { id: "" })), -32602);
  assert.equal(codeOf(await door.rpc("CancelTask", { id: "" })), -32001);
  assert.equal(codeOf(await door.rpc("CancelTask", {})), -32602);
  assert.equal(codeOf(await door.rpc("ListTasks", { pageSize: 0 })), -32602);
  assert.equal(codeOf(await door.rpc("ListTasks", { pageToken: "x" })), -32602);
  const ids: string[] = [];
  for (const text of ["a", "b", "c"]) ids.push((await door.rpc("SendMessage", message(text))).result.task.id);
  door.finish(await door.begin());
  const listed = (await door.rpc("ListTasks", { pageSize: 2, includeArtifacts: true })).result;
  assert.deepEqual([listed.totalSize, listed.pageSize, listed.tasks.length], [3, 2, 2]);
  assert.deepEqual(Object.keys(listed), ["tasks", "nextPageToken", "pageSize", "totalSize"]);
  for (const task of listed.tasks) assert.match(task.status.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  const rest =
    (await door.rpc("ListTasks", { pageSize: 2, pageToken: listed.nextPageToken, includeArtifacts: true })).result;
  assert.equal(rest.nextPageToken, "");
  const all = [...listed.tasks, ...rest.tasks];
  assert.deepEqual(all.map(({ id }) => id).sort(), ids.toSorted());
  assert.deepEqual(all.map(({ artifacts }) => artifacts.length).sort(), [0, 0, 1]);
  const plain = (await door.rpc("ListTasks", { status: "TASK_STATE_COMPLETED" })).result;
  assert.deepEqual([plain.totalSize, "artifacts" in plain.tasks[0]], [1, false]);

  assert.deepEqual(reasonOf(await door.rpc("CancelTask", { id: ids[0] })), [
    -32002,
    "TASK_NOT_CANCELABLE",
    { taskId: ids[0], state: "TASK_STATE_COMPLETED" },
  ]);
  assert.equal(
    (await door.rpc("CancelTask", { id: ids[0] })).error!.message,
    "Task cannot be canceled: it is already TASK_STATE_COMPLETED",
  );
  const queued = (await door.rpc("CancelTask", { id: ids[2] })).result;
  assert.deepEqual([queued.status.state, "artifacts" in queued], ["TASK_STATE_CANCELED", false]);
  running = true;
  await door.begin();
  assert.deepEqual((await door.rpc("CancelTask", { id: ids[1] })).result.artifacts, [{
    artifactId: "residue",
    name: "residue",
    parts: [{ data: residue, mediaType: "application/json" }],
  }]);
  // It stands at once, and what it left is no part of the task.
  const after = (await door.rpc("GetTask", { id: ids[1] })).result;
  assert.deepEqual([after.status.state, "artifacts" in after], ["TASK_STATE_CANCELED", false]);
});

Deno.test("stopping the session cancels everything, tells what is left and ends neither door nor process", async () => {
  await using door = openLocalDoor();
  const ids = [
    (await door.rpc("SendMessage", message("a"))).result.task.id,
    (await door.rpc("SendMessage", message("b"))).result.task.id,
  ];
  assert.deepEqual((await door.rpc("murmur.StopSession", { ignored: 1 })).result, {
    session_id: door.sessionId,
    canceled: ids.toSorted(),
    residue: [],
  });
  assert.deepEqual((await door.rpc("session/stop")).result.canceled, []);
  const refused = (await door.rpc("SendMessage", message("c"))).result.task;
  assert.equal(refused.status.message.parts[0].text, "task rejected: the session is closing");
  assert.equal((await door.rpc("ListTasks")).result.totalSize, 2);
});

Deno.test("a stream is the task, then its events, then the end; what is refused is one JSON answer", async () => {
  await using door = openLocalDoor({ queueDepth: 1 });
  const response = await door.stream("SendStreamingMessage", message("one"));
  assert.equal(response.status, 200);
  assert.deepEqual(
    ["content-type", "cache-control", "connection", "content-length"].map((name) => response.headers.get(name)),
    ["text/event-stream", "no-cache", "keep-alive", null],
  );
  const busy = await allEvents(await door.stream("SendStreamingMessage", message("two")));
  assert.deepEqual(busy.map(({ id, event }) => [id, event]), [[null, "task"], [null, "status"]]);
  assert.equal(busy[0]!.data.result.task.status.state, "TASK_STATE_REJECTED");
  assert.equal(busy[1]!.data.result.statusUpdate.status.message.parts[0].text, "task rejected: capsule is busy");
  assert.equal(busy[1]!.data.result.statusUpdate.metadata.murmur.final, true);
  for (
    const [method, params, code] of [
      ["SendStreamingMessage", {}, -32602],
      ["SendStreamingMessage", message("x", { parts: [{ raw: "AA==" }] }), -32005],
      ["SendStreamingMessage", message("x", { taskId: "tsk_none" }), -32001],
      ["SubscribeToTask", {}, -32602],
      ["SubscribeToTask", { id: "" }, -32602],
      ["SubscribeToTask", { id: "tsk_none" }, -32001],
    ] as const
  ) {
    const refused = await door.stream(method, params);
    assert.equal(refused.headers.get("content-type"), "application/json");
    assert.equal((await refused.json()).error.code, code);
  }
  const task = await door.begin();
  door.tasks.progress(task.id, "inference turn 1");
  const subscribed = allEvents(await door.stream("SubscribeToTask", { id: task.id }));
  const resumed = allEvents(await door.stream("SubscribeToTask", { id: task.id }, { "last-event-id": "0" }));
  await pause(50);
  door.frames.publish({
    type: "artifact",
    taskId: task.id,
    toolName: "bash",
    content: "out",
    fenceSource: null,
    toolCallId: null,
    isError: false,
    durationMs: 1,
    exitCode: 0,
    truncated: false,
  });
  door.finish(task);
  const shape = (events: Awaited<typeof subscribed>) => events.map(({ id, event }) => [id, event]);
  const later = [["2", "artifact"], [null, "artifact"], ["3", "status"]];
  assert.deepEqual(shape(await allEvents(response)), [[null, "task"], ["1", "status"], ...later]);
  assert.deepEqual(shape(await subscribed), [[null, "task"], ...later]);
  assert.deepEqual(shape(await resumed), [[null, "task"], ["1", "status"], ...later]);
  const [snapshot, artifact] = await subscribed;
  assert.equal(snapshot!.data.result.task.status.state, "TASK_STATE_WORKING");
  assert.deepEqual(
    [
      artifact!.data.jsonrpc,
      artifact!.data.result.artifactUpdate.append,
      artifact!.data.result.artifactUpdate.lastChunk,
    ],
    ["2.0", false, true],
  );
  const ended = await door.rpc("SubscribeToTask", { id: task.id });
  assert.deepEqual(reasonOf(ended), [-32004, "UNSUPPORTED_OPERATION", {
    taskId: task.id,
    state: "TASK_STATE_COMPLETED",
  }]);
});

Deno.test("a stream stays open while its task waits for a person, and a reply may open a second one", async () => {
  await using door = openLocalDoor();
  const first = allEvents(await door.stream("SendStreamingMessage", message("one")));
  const task = await door.begin();
  const question = door.tasks.requestInput(task.id, "Which?", null);
  const second = allEvents(
    await door.stream("SendStreamingMessage", message("this", { taskId: task.id }), { "last-event-id": "0" }),
  );
  assert.equal(await question, "this");
  door.finish(task);
  const states = (events: Awaited<typeof first>) =>
    events.map(({ id, data: { result } }) => [
      id,
      result.task?.status.state ?? result.statusUpdate?.status.message.parts[0].text ?? "artifact",
    ]);
  const rest = [["2", "resumed"], [null, "artifact"], ["3", "session ended"]];
  assert.deepEqual(states(await first), [[null, "TASK_STATE_SUBMITTED"], ["1", "Which?"], ...rest]);
  assert.deepEqual(states(await second), [[null, "TASK_STATE_WORKING"], ["1", "Which?"], ...rest]);
});

Deno.test("a session's stream carries every task and says when the session has ended in order", async () => {
  await using door = openLocalDoor();
  for (const text of ["a", "b"]) {
    await door.rpc("SendMessage", message(text));
    door.finish(await door.begin());
  }
  const watched = allEvents(await door.stream("murmur.WatchStream"));
  const raw = allEvents(await door.stream("stream/watch", {}, { "last-event-id": "1" }));
  const beyond = allEvents(await door.stream("stream/watch", {}, { "last-event-id": "99" }));
  await pause(50);
  door.frames.close();
  const shape = (events: Awaited<typeof raw>) => events.map(({ id, event }) => [id, event]);
  assert.deepEqual(shape(await watched), [
    [null, "connection-ack"],
    [null, "artifact"],
    ["1", "status"],
    [null, "artifact"],
    ["2", "status"],
    [null, "capsule-closed"],
  ]);
  assert.deepEqual(shape(await raw), [[null, "connection-ack"], ["2", "status"], [null, "capsule-closed"]]);
  assert.deepEqual((await raw).map(({ data }) => data)[0], { role: "observer", conversation_mode: "stateless" });
  assert.deepEqual((await raw).at(-1)!.data, {});
  assert.deepEqual(shape(await beyond), [
    [null, "connection-ack"],
    [null, "gap"],
    ["1", "status"],
    ["2", "status"],
    [null, "capsule-closed"],
  ]);
  assert.deepEqual((await beyond)[1]!.data, { first_available_id: 1 });
  assert.equal((await watched)[0]!.data.result.message.metadata.murmur.frame, "connection-ack");
  assert.equal((await watched).at(-1)!.data.result.message.messageId, "msg_capsule-closed_2");
});

Deno.test("a heartbeat is sent whether or not there are events", async () => {
  await using door = openLocalDoor({ bounds: { doorHeartbeat: 40 } });
  let beats = 0;
  for await (const { event } of sentEvents(await door.stream("murmur.WatchStream"))) {
    if (event === ":" && ++beats === 3) break;
  }
  assert.equal(beats, 3);
});

Deno.test("a body is read up to its limits of size and time", async () => {
  await using door = openLocalDoor({ bounds: { doorBody: 300 } });
  const announced = await door.raw(wire("POST", "/", { ...CALL, "content-length": String((16 << 20) + 1) }), 200);
  assert.match(announced, /^HTTP\/1\.1 413 [\s\S]*\{"error":"body_too_large","message":"[^"]+"\}/);
  const chunk = `100000\r\n${" ".repeat(1 << 20)}\r\n`;
  const endless = wire("POST", "/", { ...CALL, "transfer-encoding": "chunked" }) + chunk.repeat(17);
  assert.match(await door.raw(endless, 1_000), /^HTTP\/1\.1 413 /);
  const largest = `{"jsonrpc":"2.0","id":1,"method":"ListTasks"${" ".repeat((16 << 20) - 45)}}`;
  assert.equal(
    (await (await door.request("/", { method: "POST", headers: CALL, body: largest })).json()).result.totalSize,
    0,
  );
  const slow = await door.raw(`${wire("POST", "/", { ...CALL, "content-length": "20" })}{"jso`, 1_000);
  assert.match(slow, /^HTTP\/1\.1 408 [\s\S]*"body_too_slow"/);
});

Deno.test("bodies that are read at once share a bound of memory, which small ones are not held to", async () => {
  await using door = openLocalDoor();
  const half: Deno.Conn[] = [];
  const large = (16 << 20) - 1;
  const filled = new Uint8Array(large - 100).fill(32);
  for (let i = 0; i < 4; i++) {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: door.port });
    const writer = connection.writable.getWriter();
    await writer.write(new TextEncoder().encode(wire("POST", "/", { ...CALL, "content-length": String(large) })));
    await writer.write(filled);
    half.push(connection);
  }
  await pause(300);
  const refused = await door.request("/", { method: "POST", headers: CALL, body: LIST + " ".repeat(1 << 20) });
  assert.deepEqual([refused.status, refused.headers.get("retry-after"), (await refused.json()).error], [
    503,
    "1",
    "too_many_requests",
  ]);
  const small = await door.request("/", { method: "POST", headers: CALL, body: LIST + " ".repeat(60_000) });
  assert.equal((await small.json()).result.totalSize, 0);
  for (const connection of half) connection.close();
  await pause(100);
  const again = await door.request("/", { method: "POST", headers: CALL, body: LIST + " ".repeat(1 << 20) });
  assert.equal((await again.json()).result.totalSize, 0);
});

Deno.test("beyond its limits of requests and streams the door asks to come back, and then serves again", async () => {
  await using door = openLocalDoor();
  const half: Deno.Conn[] = [];
  const head = new TextEncoder().encode(`${wire("POST", "/", { ...CALL, "content-length": "20" })}{`);
  for (let i = 0; i < MAX_REQUESTS; i++) {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: door.port });
    await connection.write(head);
    half.push(connection);
  }
  await pause(100);
  const full = await send(door, "POST", "/", CALL, LIST);
  assert.deepEqual([full.status, full.headers.get("retry-after"), JSON.parse(full.body).error], [
    503,
    "1",
    "too_many_requests",
  ]);
  assert.equal((await send(door, "GET", "/.well-known/agent-card.json")).status, 200);
  for (const connection of half) connection.close();
  await pause(200);
  assert.equal((await send(door, "POST", "/", CALL, LIST)).status, 200);

  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "murmur.WatchStream" });
  // All at once, and no more of them than the limit is let through.
  const open = await Promise.all(Array.from({ length: MAX_STREAMS + 20 }, async () => {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: door.port });
    await connection.write(new TextEncoder().encode(wire("POST", "/", CALL, body)));
    return connection;
  }));
  const heads = await Promise.all(open.map(async (connection) => {
    const head = new Uint8Array(4_096);
    return new TextDecoder().decode(head.subarray(0, (await connection.read(head)) ?? 0)).slice(0, 12);
  }));
  const answered = (status: number) => heads.filter((head) => head === `HTTP/1.1 ${status}`).length;
  assert.equal(answered(200) + answered(503), open.length);
  // Requests beyond their own limit were turned away before; the rest fills the streams up.
  assert.ok(answered(200) <= MAX_STREAMS);
  while (open.length < MAX_STREAMS + 20 + MAX_REQUESTS) {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: door.port });
    await connection.write(new TextEncoder().encode(wire("POST", "/", CALL, body)));
    const head = new Uint8Array(4_096);
    const got = new TextDecoder().decode(head.subarray(0, (await connection.read(head))!));
    open.push(connection);
    if (got.includes("too_many_streams")) break;
  }
  const refused = await send(door, "POST", "/", CALL, body);
  assert.deepEqual([refused.status, refused.headers.get("retry-after"), JSON.parse(refused.body).error], [
    503,
    "1",
    "too_many_streams",
  ]);
  assert.equal((await send(door, "POST", "/", CALL, LIST)).status, 200);
  for (const connection of open) connection.close();
  await pause(200);
  const again = await door.stream("murmur.WatchStream");
  assert.equal(again.status, 200);
  await again.body!.cancel();
});

Deno.test("requests wait until the session is ready; the card does not", async () => {
  await using door = openLocalDoor({ waits: true });
  const answer = door.rpc("ListTasks");
  assert.equal((await send(door, "GET", "/.well-known/agent-card.json")).status, 200);
  assert.equal(await Promise.race([answer, pause(50)]), undefined);
  door.listener.serve();
  assert.equal((await answer).result.totalSize, 0);
});

Deno.test("at the end streams get what is queued for them, and a reader that takes nothing is cut off", async () => {
  const door = openLocalDoor();
  const watched = allEvents(await door.stream("murmur.WatchStream"));
  const stalled = await Deno.connect({ hostname: "127.0.0.1", port: door.port });
  await stalled.write(
    new TextEncoder().encode(
      wire("POST", "/", CALL, JSON.stringify({ jsonrpc: "2.0", id: 1, method: "stream/watch" })),
    ),
  );
  await pause(50);
  for (let i = 0; i < 100; i++) {
    door.frames.publish({ type: "text", taskId: "tsk_a", text: "x".repeat(200_000), final: false });
    await pause(1);
  }
  door.frames.close();
  const started = performance.now();
  await door.listener.close(300);
  assert.ok(performance.now() - started < 2_000);
  assert.equal((await watched).at(-1)!.event, "capsule-closed");
  const text = await new Response(stalled.readable).text().catch(() => "");
  assert.ok(!text.includes("capsule-closed"));
});

Deno.test("a taken port is an error of its own only when the manifest pins it", async () => {
  await using door = openLocalDoor();
  const { openListener } = await import("./listener.ts");
  const options = {
    hostname: "127.0.0.1",
    hosts: [],
    origins: [],
    tokens: null,
    bounds: { doorBody: 1, doorHeartbeat: 1 },
    report: () => {},
  };
  const session = {} as Parameters<typeof openListener>[0]["session"];
  assert.throws(
    () => openListener({ ...options, session, port: door.port }),
    (error) => error instanceof MurError && error.code === "E-RUN-010" && error.message.includes(String(door.port)),
  );
  assert.throws(
    () => openListener({ ...options, session, port: null, hostname: "192.0.2.1" }),
    (error) => error instanceof MurError && error.code === "E-IO-003",
  );
  assert.equal((await doorCalls(door.port).rpc("ListTasks")).result.totalSize, 0);
});

Deno.test("GetTask tells what a task is now, however often it was asked before", async () => {
  await using door = openLocalDoor();
  const { task } = (await door.rpc("SendMessage", message("go", { returnImmediately: true }))).result;
  const told = async (id: unknown = 7) => {
    const body = JSON.stringify({ jsonrpc: "2.0", id, method: "GetTask", params: { id: task.id } });
    const answers = [];
    for (let time = 0; time < 3; time++) {
      answers.push(parsed(await door.raw(wire("POST", "/", CALL, body), 100)));
    }
    const [first, ...others] = answers.map(({ status, body, headers }) => [
      status,
      body,
      headers.get("content-type"),
      headers.get("connection"),
      headers.get("content-length"),
    ]);
    for (const other of others) assert.deepEqual(other, first);
    const answer = JSON.parse(answers[0]!.body);
    assert.equal(answer.id, id);
    return answer.result;
  };
  assert.deepEqual(await told(), { id: task.id, contextId: task.contextId, status: { state: "TASK_STATE_SUBMITTED" } });
  const begun = await door.begin();
  assert.equal((await told()).status.state, "TASK_STATE_WORKING");
  const question = door.tasks.requestInput(task.id, "which one?", null);
  assert.deepEqual((await told()).artifacts[0].parts[0].text, "which one?");
  door.tasks.reply(task.id, "that one");
  await question;
  assert.deepEqual((await told()).artifacts, undefined);
  door.finish(begun, { response: "é \u2028 \ud800 end" });
  const ended = await told('a "quoted" id');
  assert.equal(ended.status.state, "TASK_STATE_COMPLETED");
  assert.equal(ended.artifacts[0].parts[0].text, "é \u2028 \ud800 end");
  assert.deepEqual((await door.rpc("GetTask", { id: `${task.id}x` })).error!.code, -32001);
});

Deno.test("what GetTask told one caller is told to no caller without its scope", async () => {
  await using door = openLocalDoor({ credentials: { reader: ["SendMessage", "GetTask"], writer: ["SendMessage"] } });
  const tokens = door.tokens!.credentials();
  const reader = bearer(tokens.get("reader")!);
  const writer = bearer(tokens.get("writer")!);
  const { task } = (await door.rpc("SendMessage", message("go", { returnImmediately: true }), reader)).result;
  for (let time = 0; time < 2; time++) {
    assert.equal((await door.rpc("GetTask", { id: task.id }, reader)).result.id, task.id);
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "GetTask", params: { id: task.id } });
    assert.deepEqual(
      [
        (await send(door, "POST", "/", { ...CALL, ...writer }, body)).status,
        (await send(door, "POST", "/", CALL, body)).status,
        (await send(door, "POST", "/", { ...CALL, ...reader }, body)).status,
      ],
      [403, 401, 200],
    );
  }
});

Deno.test("GetTask of a task too long to be kept is told whole each time", async () => {
  await using door = openLocalDoor();
  const { task } = (await door.rpc("SendMessage", message("go", { returnImmediately: true }))).result;
  const response = "long ".repeat(20_000);
  door.finish(await door.begin(), { response });
  for (let time = 0; time < 2; time++) {
    assert.equal((await door.rpc("GetTask", { id: task.id })).result.artifacts[0].parts[0].text, response);
  }
});
