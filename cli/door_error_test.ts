import assert from "node:assert/strict";
import { DoorClient } from "../base/door_client.ts";
import { DEFAULT_TIME_BOUNDS } from "../base/time_bounds.ts";
import { scriptedDoor } from "../tests/support/scripted_door.ts";
import { doorError } from "./door_error.ts";

Deno.test("a refusal is told with its status and its words, without the token", async () => {
  await using door = scriptedDoor({ token: "mdt1.secret" });
  for (const [token, status, word] of [[null, 401, "unauthenticated"], ["mdt1.wrong", 401, "invalid_token"]] as const) {
    const client = new DoorClient({ host: "localhost", port: door.port, token }, DEFAULT_TIME_BOUNDS);
    const error = await client.call("GetTask", { id: "x" }).then(
      () => assert.fail("answered"),
      (cause) => doorError(cause, "ses_x"),
    );
    assert.equal(error.code, "E-IO-003");
    assert.match(error.message, new RegExp(`ses_x answered ${status} ${word}`));
    assert.match(error.hint ?? "", /MURMUR_DOOR_TOKEN/);
    assert.ok(!JSON.stringify([error.message, error.hint]).includes("mdt1"));
  }
});

Deno.test("another error than a door's is no door's", () => {
  assert.throws(() => doorError(new TypeError("x"), "ses_x"), TypeError);
});
