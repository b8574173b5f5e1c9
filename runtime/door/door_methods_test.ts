import assert from "node:assert/strict";
import { DOOR_SCOPES } from "../../artifact/manifest/door_scopes.ts";
import { isStreaming, methodMeaning, scopeOf, servedMethods } from "./door_methods.ts";

const OPEN = { takesTasks: true, authenticated: false };

Deno.test("served methods stand in the order of the card", () => {
  const all = [
    "SendMessage",
    "SendStreamingMessage",
    "SubscribeToTask",
    "murmur.WatchStream",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "murmur.StopSession",
    "GetExtendedAgentCard",
  ];
  assert.deepEqual(servedMethods({ takesTasks: true, authenticated: true }), all);
  assert.deepEqual(servedMethods(OPEN), all.slice(0, -1));
  assert.deepEqual(servedMethods({ takesTasks: false, authenticated: false }), all.slice(2, -1));
});

Deno.test("what is listed is served, the two older names too, and nothing else", () => {
  for (const takesTasks of [true, false]) {
    for (const authenticated of [true, false]) {
      const door = { takesTasks, authenticated };
      for (const method of servedMethods({ takesTasks: true, authenticated: true })) {
        const served = servedMethods(door).includes(method);
        assert.equal(methodMeaning(method, door).kind === "served", served, method);
      }
    }
  }
  assert.deepEqual(methodMeaning("stream/watch", OPEN), { kind: "served", method: "murmur.WatchStream" });
  assert.deepEqual(methodMeaning("session/stop", OPEN), { kind: "served", method: "murmur.StopSession" });
  assert.deepEqual(methodMeaning("GetExtendedAgentCard", OPEN), { kind: "unsupported" });
  for (
    const method of [
      "CreateTaskPushNotificationConfig",
      "GetTaskPushNotificationConfig",
      "ListTaskPushNotificationConfigs",
      "DeleteTaskPushNotificationConfig",
    ]
  ) assert.deepEqual(methodMeaning(method, OPEN), { kind: "push_notification" });
  for (
    const name of [
      "",
      "getTask",
      " GetTask",
      "GetTask ",
      "message/send",
      "message/stream",
      "tasks/get",
      "tasks/list",
      "tasks/cancel",
      "tasks/resubscribe",
      "agent/getAuthenticatedExtendedCard",
      "murmur.Watch",
      "toString",
      "__proto__",
    ]
  ) assert.deepEqual(methodMeaning(name, { takesTasks: true, authenticated: true }), { kind: "unknown" }, name);
});

Deno.test("every method needs the scope of its name but the extended card, and only three stream", () => {
  const methods = servedMethods({ takesTasks: true, authenticated: true });
  assert.deepEqual(
    methods.map(scopeOf).filter((scope) => scope !== null).sort(),
    [
      ...DOOR_SCOPES.filter((scope) => scope !== "resources/files"),
    ].sort(),
  );
  assert.deepEqual(methods.filter(isStreaming), ["SendStreamingMessage", "SubscribeToTask", "murmur.WatchStream"]);
});
