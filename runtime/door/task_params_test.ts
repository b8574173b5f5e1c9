import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import { readCancelId, readListQuery, readTaskId } from "./task_params.ts";

Deno.test("a task's id is a non-empty string; the lookup of a cancel says that an empty one names none", () => {
  assert.equal(readTaskId({ id: "tsk_1" }, "GetTask"), "tsk_1");
  for (const params of [{}, { id: "" }, { id: null }, { id: 5 }, { name: "tsk_1" }] as JsonObject[]) {
    assert.deepEqual(readTaskId(params, "GetTask"), { code: -32602, message: "GetTask requires an id" });
    assert.deepEqual(readTaskId(params, "SubscribeToTask"), {
      code: -32602,
      message: "SubscribeToTask requires an id",
    });
    assert.deepEqual(
      readCancelId(params),
      params.id === "" ? "" : { code: -32602, message: "CancelTask requires an id" },
    );
  }
});

Deno.test("a list's parameters have defaults, and each wrong one is named", () => {
  const defaults = {
    contextId: null,
    state: null,
    pageSize: 50,
    pageToken: "",
    changedFrom: null,
    includeArtifacts: false,
  };
  for (
    const params of [
      {},
      {
        contextId: "",
        status: "TASK_STATE_UNSPECIFIED",
        pageSize: null,
        pageToken: "",
        historyLength: 0,
        statusTimestampAfter: "",
      },
      { contextId: null, status: null, includeArtifacts: null, historyLength: null, statusTimestampAfter: null },
    ] as JsonObject[]
  ) assert.deepEqual(readListQuery(params), defaults);
  assert.deepEqual(
    readListQuery({
      contextId: "c",
      status: "TASK_STATE_INPUT_REQUIRED",
      pageSize: 100,
      pageToken: "t",
      statusTimestampAfter: "2026-09-01T10:00:00.5+02:00",
      includeArtifacts: true,
      historyLength: 3,
    }),
    {
      contextId: "c",
      state: "input-required",
      pageSize: 100,
      pageToken: "t",
      changedFrom: Date.UTC(2026, 8, 1, 8, 0, 0, 500),
      includeArtifacts: true,
    },
  );
  const auth = readListQuery({ status: "TASK_STATE_AUTH_REQUIRED" });
  assert.ok(!("code" in auth) && auth.state === "none");
  const wrong: [JsonObject, string][] = [
    [{ contextId: 5 }, "contextId"],
    [{ status: "working" }, "status"],
    [{ status: "TASK_STATE_X" }, "status"],
    [{ status: 2 }, "status"],
    [{ pageSize: 0 }, "pageSize"],
    [{ pageSize: 101 }, "pageSize"],
    [{ pageSize: 1.5 }, "pageSize"],
    [{ pageSize: "5" }, "pageSize"],
    [{ pageToken: 5 }, "pageToken"],
    [{ statusTimestampAfter: "yesterday" }, "statusTimestampAfter"],
    [{ statusTimestampAfter: "2026-13-01T00:00:00Z" }, "statusTimestampAfter"],
    [{ statusTimestampAfter: 5 }, "statusTimestampAfter"],
    [{ statusTimestampAfter: "Tue, 1 Sep 2026 10:00:00 GMT" }, "statusTimestampAfter"],
    [{ includeArtifacts: "true" }, "includeArtifacts"],
    [{ historyLength: -1 }, "historyLength"],
    [{ historyLength: 0.5 }, "historyLength"],
  ];
  for (const [params, name] of wrong) {
    const result = readListQuery(params);
    assert.ok("code" in result && result.code === -32602 && result.message.startsWith(name), JSON.stringify(params));
  }
});
