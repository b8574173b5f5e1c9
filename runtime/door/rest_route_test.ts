import assert from "node:assert/strict";
import fc from "fast-check";
import { queryParams, restRoute } from "./rest_route.ts";

const meaning = (method: string, path: string, older = false) => {
  const route = restRoute(method, path, older);
  return route === null ? null : [route.version, route.method, route.taskId, route.hasBody];
};

Deno.test("the standard's paths mean the standard's methods", () => {
  assert.deepEqual(meaning("POST", "/message:send"), ["1.0", "SendMessage", null, true]);
  assert.deepEqual(meaning("POST", "/message:stream"), ["1.0", "SendStreamingMessage", null, true]);
  assert.deepEqual(meaning("GET", "/tasks"), ["1.0", "ListTasks", null, false]);
  assert.deepEqual(meaning("GET", "/tasks/tsk_1"), ["1.0", "GetTask", "tsk_1", false]);
  assert.deepEqual(meaning("POST", "/tasks/tsk_1:cancel"), ["1.0", "CancelTask", "tsk_1", false]);
  assert.deepEqual(meaning("GET", "/tasks/tsk_1:subscribe"), ["1.0", "SubscribeToTask", "tsk_1", false]);
  assert.deepEqual(meaning("POST", "/tasks/tsk_1:subscribe"), ["1.0", "SubscribeToTask", "tsk_1", false]);
  assert.deepEqual(meaning("GET", "/extendedAgentCard"), ["1.0", "GetExtendedAgentCard", null, false]);
  assert.deepEqual(meaning("GET", "/tasks/a%2Fb"), ["1.0", "GetTask", "a/b", false]);
  for (const [method, path] of [["POST", ""], ["GET", ""], ["GET", "/c1"], ["DELETE", "/c1"]] as const) {
    assert.deepEqual(meaning(method, `/tasks/t/pushNotificationConfigs${path}`), ["1.0", null, null, false]);
  }
});

Deno.test("0.3 has its own paths, where it is spoken", () => {
  assert.deepEqual(meaning("POST", "/v1/message:send", true), ["0.3", "SendMessage", null, true]);
  assert.deepEqual(meaning("GET", "/v1/tasks/t", true), ["0.3", "GetTask", "t", false]);
  assert.deepEqual(meaning("POST", "/v1/tasks/t:cancel", true), ["0.3", "CancelTask", "t", false]);
  assert.deepEqual(meaning("GET", "/v1/card", true), ["0.3", "GetExtendedAgentCard", null, false]);
  assert.deepEqual(meaning("POST", "/message:send", true), ["1.0", "SendMessage", null, true]);
  for (const path of ["/v1/message:send", "/v1/tasks/t", "/v1/card"]) {
    assert.equal(meaning("POST", path), null);
    assert.equal(meaning("GET", path), null);
  }
  assert.equal(meaning("GET", "/v1/tasks", true), null);
  assert.equal(meaning("GET", "/v1/extendedAgentCard", true), null);
});

Deno.test("every other path is none, whatever it is made of", () => {
  for (
    const [method, path] of [
      ["GET", "/message:send"],
      ["POST", "/message:sendx"],
      ["POST", "/message"],
      ["POST", "/tasks"],
      ["GET", "/tasks/"],
      ["DELETE", "/tasks/t"],
      ["POST", "/tasks/t"],
      ["GET", "/tasks/t:cancel"],
      ["POST", "/tasks/:cancel"],
      ["GET", "/tasks/t/other"],
      ["GET", "/tasks/%E0%A4%A"],
      ["POST", "/tasks/%ff:cancel"],
      ["GET", "/card"],
      ["GET", "/tenant/tasks"],
      ["GET", "//tasks"],
    ] as const
  ) assert.equal(meaning(method, path, true), null, `${method} ${path}`);
  fc.assert(fc.property(fc.string(), fc.string(), fc.boolean(), (method, path, older) => {
    const route = restRoute(method, path, older);
    assert.ok(route === null || method === "GET" || method === "POST" || route.method === null);
  }));
});

Deno.test("a query becomes parameters; what is of a wrong kind stays text", () => {
  assert.deepEqual(
    queryParams(
      "contextId=c%20d&pageSize=5&includeArtifacts=true&historyLength=-1&status=TASK_STATE_WORKING&pageToken=x",
    ),
    {
      contextId: "c d",
      pageSize: 5,
      includeArtifacts: true,
      historyLength: -1,
      status: "TASK_STATE_WORKING",
      pageToken: "x",
    },
  );
  assert.deepEqual(queryParams("pageSize=5.5&includeArtifacts=yes"), { pageSize: "5.5", includeArtifacts: "yes" });
  assert.deepEqual(queryParams(""), {});
});
