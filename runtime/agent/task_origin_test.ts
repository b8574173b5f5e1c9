import assert from "node:assert/strict";
import { completionStanding, LAUNCH_TASK, LOST_COMMANDS_TASK, requestStanding } from "./task_origin.ts";

Deno.test("the table of origins and trust, for every combination a request can make", () => {
  const origins = [null, "", "peer", "PEER", "Completion", "user", "schedule", "event", "system", "root", " peer"];
  const trusts = [null, "", "trusted", "untrusted", "Trusted", "TRUSTED", "trusted "];
  for (const origin of origins) {
    for (const trust of trusts) {
      for (const tokenPresented of [false, true]) {
        const standing = requestStanding({ origin, trust, tokenPresented });
        const believed = ["peer", "completion"].includes(origin?.toLowerCase() ?? "");
        assert.equal(standing.origin, believed ? origin!.toLowerCase() : "event");
        assert.equal(standing.trust, believed && tokenPresented && trust === "trusted" ? "trusted" : "untrusted");
        assert.equal(standing.lane, standing.origin === "peer" ? "peer" : "bg");
      }
    }
  }
});

Deno.test("what the runtime makes itself", () => {
  assert.deepEqual(LAUNCH_TASK, { origin: "user", trust: "trusted", lane: "user" });
  assert.deepEqual(LOST_COMMANDS_TASK, { origin: "completion", trust: "untrusted", lane: "bg" });
  assert.deepEqual(completionStanding("trusted"), { origin: "completion", trust: "trusted", lane: "bg" });
  assert.deepEqual(completionStanding("untrusted"), { origin: "completion", trust: "untrusted", lane: "bg" });
});
